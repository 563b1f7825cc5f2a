// When a page has settled: all that the person did has reached the server, and all that it answered is shown.
//
// Streamlit says of itself only whether a script runs as far as the browser has heard. Of what is done meanwhile, much
// is sent later (a grid waits 150 ms before it tells its selection, a search field while somebody types), and the
// answer to what was sent begins when the server gets to it. So what is sent and answered is listened to here, before
// Streamlit's own scripts begin.
(() => {
  "use strict";

  const ASKS = 90, STANDS = 74;  // first bytes of "run the script" and of "whether it runs"; the second of that: 0, no
  const SOON_MS = [40, 500];  // what Streamlit waits with before it sends, and no clock that ticks on and on
  const LOOKS = 3;
  let waits = false;  // for an answer to what was sent last
  let runs = false;
  let stopped = -Infinity, overtook = false;  // what was sent while the script ran may be answered by another run
  const later = new Map();  // what is to be done soon, and since when

  class Listened extends WebSocket {
    constructor(...whereto) {
      super(...whereto);
      waits = runs = false;
      this.addEventListener("message", ({ data }) => {
        const [what, length] = new Uint8Array(data, 0, Math.min(2, data.byteLength));
        if (what !== STANDS) return;
        if (runs && length === 0) { stopped = performance.now(); waits = false; }
        runs = length !== 0;
        if (runs) overtook = false;
      });
    }

    send(data) {
      if (new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, 1)[0] === ASKS) {
        waits = true;
        overtook = runs;
      }
      super.send(data);
    }
  }
  window.WebSocket = Listened;

  const { setTimeout, clearTimeout } = window;
  window.setTimeout = (act, delay, ...told) => {
    if (typeof act !== "function" || !(delay >= SOON_MS[0] && delay <= SOON_MS[1])) return setTimeout(act, delay, ...told);
    const number = setTimeout(() => { later.delete(number); act(...told); }, delay);
    later.set(number, performance.now());
    return number;
  };
  window.clearTimeout = number => { later.delete(number); clearTimeout(number); };

  const stands = () => {
    const app = document.querySelector("[data-testid=stApp]");
    return app?.dataset.testScriptState === "notRunning" && app.dataset.testConnectionState === "CONNECTED"
      && !document.querySelector("[data-testid=stSkeleton]");
  };

  // A toast goes by itself after seconds; what it said can be asked for as long as the page is open.
  const shown = document.getElementsByClassName("stToast"), toasts = new Set();
  new MutationObserver(() => {
    for (const one of shown) toasts.add(one.textContent);
  }).observe(document, { childList: true, subtree: true });
  window.hasToasted = words => [...toasts].some(said => said.includes(words));

  let call = 0, looks = 0, asked = 0, held = 0;
  // Looked at frame by frame until it has held for a few: what is drawn next may send again.
  window.hasSettled = number => {
    const now = performance.now();
    if (number !== call) [call, looks, held] = [number, 0, 0];
    if (++looks < LOOKS) asked = now;  // effects of what was done a moment ago
    const told = !waits && !runs && !(overtook && now - stopped < SOON_MS[1]);
    const rests = [...later.values()].every(since => since > asked);
    held = told && rests && stands() ? held + 1 : 0;
    return held >= LOOKS;
  };
})();
