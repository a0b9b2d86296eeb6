#!/bin/sh
# Python 3.13 with its headers in a folder, from Debian's packages, where the machine has an older one.
# Nothing is installed: the packages are unpacked, and a script starts the interpreter with the libraries beside it.
set -eu
folder=${1:?a folder to make}
mirror=${MIRROR:-http://deb.debian.org/debian}
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/packages"
folder=$(cd "$folder" && pwd)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$folder/apt/sources.list"
touch "$folder/apt/status"
cat >"$folder/apt/apt.conf" <<CONF
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
APT::Sandbox::User "root";
CONF
export APT_CONFIG="$folder/apt/apt.conf"
apt-get -qq update
(cd "$folder/packages" && apt-get -qq download python3.13 python3.13-minimal python3.13-venv libpython3.13-minimal \
    libpython3.13-stdlib libpython3.13-dev libc6 libstdc++6 libgcc-s1 libexpat1 zlib1g libzstd1 libssl3t64 libffi8 \
    libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libreadline8t64 libtinfo6 libncursesw6)
for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$folder"; done
# Debian's headers look for this one from /usr/include.
cp "$folder/usr/include/x86_64-linux-gnu/python3.13/pyconfig.h" "$folder/usr/include/python3.13/pyconfig.h"
mv "$folder/usr/bin/python3.13" "$folder/usr/bin/python3.13-program"
libraries=$folder/usr/lib/x86_64-linux-gnu
cat >"$folder/usr/bin/python3.13" <<RUN
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" --argv0 "\$0" "$folder/usr/bin/python3.13-program" "\$@"
RUN
chmod +x "$folder/usr/bin/python3.13"
rm -r "$folder/apt" "$folder/packages"
"$folder/usr/bin/python3.13" --version
