// The connection: server-sent events read with fetch, because EventSource cannot send the token in a header. A cookie
// would be sent by other sites' requests, too; a header is not.

const SILENCE = 30_000; // milliseconds; the server says something at least every ten seconds
const LONGEST_WAIT = 15_000;

export class Refused extends Error {}

// Calls `receive(event, data)` for each event, and `tell(state, wait)` when the state of the connection changes:
// "connecting", "live", "lost" (with the milliseconds until the next try) or "refused". Tries until stopped.
export class Stream {
  constructor(url, token, receive, tell) {
    Object.assign(this, { url, token, receive, tell, failures: 0, live: false, stopped: false });
    this.again = () => { if (!document.hidden) this.hurry?.(); };
    document.addEventListener("visibilitychange", this.again);
    addEventListener("online", this.again);
    this.run();
  }

  stop() {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.again);
    removeEventListener("online", this.again);
    this.abort?.abort();
    this.hurry?.();
  }

  async run() {
    while (!this.stopped) {
      try {
        await this.listen();
      } catch (error) {
        if (this.stopped) return;
        if (error instanceof Refused) return this.tell("refused");
      }
      if (this.stopped) return;
      this.live = false;
      const wait = Math.min(LONGEST_WAIT, 500 * 2 ** this.failures++) * (0.75 + 0.5 * Math.random());
      this.tell("lost", wait);
      await new Promise((resolve) => { this.hurry = resolve; setTimeout(resolve, wait); });
    }
  }

  async listen() {
    const abort = (this.abort = new AbortController());
    let alarm = setTimeout(() => abort.abort(), SILENCE);
    try {
      const headers = { Accept: "text/event-stream", ...(this.token && { Authorization: `Bearer ${this.token}` }) };
      const answer = await fetch(this.url(), { headers, signal: abort.signal, cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) throw new Refused();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(alarm);
        alarm = setTimeout(() => abort.abort(), SILENCE);
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) this.dispatch(part);
      }
    } finally {
      clearTimeout(alarm);
      abort.abort();
    }
  }

  dispatch(part) {
    const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: ?(.*)/s)));
    if (!fields.event || this.stopped) return;
    if (!this.live) this.tell("live");
    Object.assign(this, { live: true, failures: 0 });
    this.receive(fields.event, JSON.parse(fields.data));
  }
}
