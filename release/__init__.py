"""What a release is made with: wheels, and the page of extras. Run it from the root: `python -m release.wheels`."""
