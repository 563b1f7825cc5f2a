// What Streamlit leaves to the browser: where its server is, that Back is one step, and what readers of a page hear.
// Runs before its own scripts.
(() => {
  "use strict";

  // Without it the page looks for its server below its own path first, and complains that nobody is there.
  window.__streamlit = { BACKEND_BASE_URL: window.location.origin };

  // Back, once, with what was chosen.
  //
  // Streamlit makes a step of every change that the server makes in an address: leaving a page first takes its
  // choices out of the address that is left, and arriving puts the filters back one by one. Here such a change is no
  // step, and the address that is left comes back before the next one begins. A step is another page, or a page of a
  // list turned (or another run shown) by the person, which the names below say.
  const TURNED = new Set(["before", "after", "ledger", "runs_from", "run"]);
  const push = window.history.pushState.bind(window.history);
  const replace = window.history.replaceState.bind(window.history);
  let left = null; // what the address was before the server began to change it
  let acted = false; // whether the person did something since, other than to choose what the address follows

  for (const doing of ["pointerdown", "keydown"]) {
    window.addEventListener(doing, () => { left = null; acted = true; }, true);
  }
  window.addEventListener("popstate", () => { left = null; acted = false; }, true);

  const isTurn = (here, there) => {
    const names = new Set([...here.searchParams.keys(), ...there.searchParams.keys()]);
    const told = (url, name) => url.searchParams.getAll(name).join("\n");
    const changed = [...names].filter(name => told(here, name) !== told(there, name));
    return changed.length > 0 && changed.every(name => TURNED.has(name));
  };

  window.history.pushState = (state, unused, address) => {
    const here = new URL(window.location.href), there = new URL(address, here);
    if (there.pathname !== here.pathname) {
      if (left !== null) replace(window.history.state, "", left);
      left = null;
      acted = false;
      push(state, unused, address);
    } else if (acted && isTurn(here, there)) {
      acted = false; // what else changes belongs to the same step
      push(state, unused, address);
    } else {
      left ??= here.href;
      replace(state, unused, address);
    }
  };
  window.history.replaceState = (state, unused, address) => {
    acted = false;
    replace(state, unused, address);
  };

  // What a reader of the page hears, where Streamlit's own marks contradict each other: the navigation on a phone is a
  // list whose items lie in boxes, the place where files are dropped says that it is only decoration, and a table that
  // scrolls can't be reached by keys in every browser.
  const MENDED = [
    ["ul[data-testid=stSidebarNavItems], ul[data-testid=stSidebarNavItems] li", one => one.setAttribute("role", "none")],
    ["section[data-testid=stFileUploaderDropzone]", one => one.setAttribute("role", "group")],
    ["[data-testid=stTable] > div", one => { if (one.scrollWidth > one.clientWidth) one.tabIndex = 0; }],
  ];
  let due = false;
  const mend = () => {
    due = false;
    for (const [what, how] of MENDED) document.querySelectorAll(what).forEach(how);
  };
  new MutationObserver(() => {
    if (!due) window.requestAnimationFrame(mend);
    due = true;
  }).observe(document, { childList: true, subtree: true });
})();
