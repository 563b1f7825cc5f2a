// What Streamlit leaves to the browser: where its server is, that Back is one step, keys that work wherever the focus
// is, and what readers of a page hear. Runs before its own scripts.
(() => {
  "use strict";

  // Without it the page looks for its server below its own path first, and complains that nobody is there.
  const { path, pages, charts, chart } = document.currentScript.dataset, here = window.location.pathname;
  window.__streamlit = { BACKEND_BASE_URL: window.location.origin + path };

  // A proxy may serve the page below a path that the server doesn't know. Then none of its parts could be loaded.
  if (!["", "/", ...pages.split(" ").map(page => `/${page}`)].some(page => path + page === here)) {
    const under = here.replace(new RegExp(`/(${pages.replaceAll(" ", "|")})?/?$`), "") || "/";
    window.addEventListener("DOMContentLoaded", () => {
      document.body.textContent =
        `armscope is served at ${path || "/"}, and this page was opened at ${here}. If a proxy serves it below ` +
        `${under}, start it with --base-path ${under}, or with ARMSCOPE_BASE_PATH=${under}.`;
    });
    return;
  }

  // A page with a chart needs the script of charts, 4.7 MB. Streamlit asks for it when the first chart arrives.
  // Here it loads beside Streamlit's own scripts, and runs while the server prepares the page.
  if (chart && charts.split(" ").includes(here.slice(path.length + 1) || "overview")) {
    const href = `${path}/static/js/${chart}`;
    document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href, crossOrigin: "" }));
    window.addEventListener("DOMContentLoaded", () => setTimeout(() => import(href)));
  }

  // Back, once, with what was chosen.
  //
  // Streamlit makes a step of every change that the server makes in an address: leaving a page first takes its
  // choices out of the address that is left, and arriving puts the filters back one by one. Here such a change is no
  // step, and the address that is left comes back before the next one begins. A step is another page, or a page of a
  // list turned (or another run shown) by the person, which the names below say.
  const TURNED = new Set(["before", "after", "ledger", "runs_from", "arms_from", "run", "topic", "part", "query", "words", "slide"]);
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

  // Keys. The classes are those of containers and fields that the pages name.
  const CHOSEN = ".st-key-reward_outcome [role=radio], .st-key-judge-levels [role=radio]";
  const TYPED = "input, textarea, select, [contenteditable], [role=combobox], [role=dialog] *, [data-testid=stDataFrame] *";

  // Ctrl + Enter sends from every field; Streamlit hears it in text fields only. Pressed there, it is heard as ever.
  // Digits choose the outcome of a reward or the level of a judgement, while nobody types.
  window.addEventListener("keydown", event => {
    const here = event.target, send = document.querySelector(".st-key-send-here button[data-testid=stBaseButton-primary]");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && send && here.matches("button, button *, [role=radio]")) {
      event.preventDefault();
      event.stopPropagation();
      send.click();
    }
    const bare = !(event.ctrlKey || event.metaKey || event.altKey || event.shiftKey);
    if (bare && /^[1-9]$/.test(event.key) && !here.matches(TYPED)) {
      const chosen = document.querySelectorAll(CHOSEN)[Number(event.key) - 1];
      if (chosen?.getAttribute("aria-checked") !== "true") chosen?.click();
      chosen?.focus();
    }
  }, true);

  // "/" goes to the field of the search, which begins at Enter: not where somebody only leaves it.
  window.addEventListener("keydown", event => {
    const field = document.querySelector(".st-key-search_field input");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !field) return;
    if (event.target.matches(TYPED)) return;
    event.preventDefault();
    field.focus();
    field.select();
  }, true);
  window.addEventListener("focusout", event => {
    if (event.target.matches(".st-key-search_field input")) event.stopPropagation();
  }, true);

  // A level is chosen here, without the server. Who looks at it for a moment sees its effect, and it becomes a draft;
  // who sends it at once sends both.
  let looking = 0;
  const look = delay => {
    window.clearTimeout(looking);
    looking = window.setTimeout(() => document.querySelector(".st-key-judge-effect button")?.click(), delay);
  };
  window.addEventListener("click", event => {
    if (!event.target.closest("button")) return;
    window.clearTimeout(looking);
    if (event.target.closest(".st-key-judge-levels")) look(1200);
  }, true);

  // A class in the title of Posteriors filters the table as its pill does. Streamlit would open another tab.
  window.addEventListener("click", event => {
    const link = event.target.closest("h1 a[href^='?']"), by = link && new URL(link.href).searchParams.get("judged");
    if (!by || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const pill = [...document.querySelectorAll(".st-key-judged button")].find(one => one.textContent.trim() === by);
    if (!pill) return;
    event.preventDefault();
    if (pill.getAttribute("aria-checked") !== "true") pill.click();
    pill.scrollIntoView({ block: "center" });
  }, true);

  // A browser gives itself a name, where people do not sign in. The server reads it when a page connects.
  window.addEventListener("click", event => {
    if (!event.target.closest(".st-key-browser-name button")) return;
    const name = document.querySelector(".st-key-browser-name input").value.trim();
    document.cookie = `armscope-name=${encodeURIComponent(name)}; path=${path || "/"}; max-age=31536000; samesite=strict`;
    window.setTimeout(() => window.location.reload(), 200);
  }, true);

  // Enter chooses an arm and goes on to the next field, where digits are no text.
  window.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (!event.target.matches(".st-key-reward_arm [role=combobox][aria-expanded=true]")) return;
    const outcomes = ".st-key-reward_outcome [role=radio]";
    window.setTimeout(() =>
      (document.querySelector(`${outcomes}[aria-checked=true]`) ?? document.querySelector(outcomes))?.focus());
  }, true);

  // Who comes to the form of rewards begins in its arm, if that is empty and nothing else has the focus. Not in a
  // narrow window, where a keyboard would unfold. Asked for by its name: each kind of field has a script of its own,
  // and whichever comes first is the first on the page for a while.
  const began = new WeakSet();
  const begin = () => {
    const first = document.querySelector(".st-key-reward_arm input");
    if (!first || began.has(first)) return;
    began.add(first);
    const idle = document.activeElement === null || document.activeElement === document.body;
    if (idle && first.value === "" && window.innerWidth > 700) first.focus({ preventScroll: true });
  };

  // What is typed into a long text reaches the server when one stops, not only when one leaves: as a draft it is there
  // after a reload. Streamlit's field tells it when it hears that it lost the focus.
  let pause = 0;
  window.addEventListener("input", event => {
    const text = event.target;
    if (!text.matches(".st-key-reward-here textarea, .st-key-judge-here textarea")) return;
    window.clearTimeout(pause);
    pause = window.setTimeout(() => {
      text.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
      if (text.closest(".st-key-judge-here")) look(0);
    }, 600);
  }, true);

  // While the server does not answer, a line says so, and texts that were typed are kept here. A server that was started
  // again draws empty fields: they are filled in again, for some seconds after it answers.
  const FIELDS = "[data-testid=stMain] textarea, [data-testid=stMain] input[type=text]";
  const AGAIN_MS = 15000;
  let wasThere = false; // a page was drawn
  let away = null; // what the fields held when the server went away, by label
  let until = 0; // till when they are filled in again

  const labelled = () => [...document.querySelectorAll(FIELDS)].filter(field => field.ariaLabel);
  const held = () => new Map(labelled().filter(field => field.value).map(field => [field.ariaLabel, field.value]));

  const line = document.createElement("div");
  line.setAttribute("role", "status");
  line.id = "armscope-away";
  Object.assign(line.style, {
    position: "fixed", inset: "auto 0 0 0", zIndex: "1000", padding: "0.75rem 1rem", textAlign: "center",
    background: "#7A4B00", color: "#FFFFFF", font: "1rem sans-serif",
  });

  const watch = () => {
    const isAway = document.querySelector("[data-testid=stConnectionStatus]") !== null;
    if (!isAway) wasThere ||= document.querySelector("[data-testid=stMain] h1") !== null;
    if (isAway && wasThere) {
      const now = held();
      if (away === null || now.size) away = { path: window.location.pathname, fields: now };
      until = 0;
      if (!line.isConnected) {
        line.textContent = "The server does not answer; what you typed is kept.";
        document.body.append(line);
      }
    } else if (away !== null) {
      line.remove();
      if (until) return;
      until = Date.now() + AGAIN_MS;
      fill();
    }
  };
  const fill = () => {
    if (away === null || !until) return; // it went away again
    if (Date.now() > until || away.path !== window.location.pathname || !away.fields.size) {
      away = null;
      return;
    }
    for (const field of labelled()) {
      const text = away.fields.get(field.ariaLabel);
      if (text === undefined || field.value || field.disabled) continue;
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, text);
      field.dispatchEvent(new Event("input", { bubbles: true }));
      window.setTimeout(() => field.dispatchEvent(new FocusEvent("focusout", { bubbles: true })), 150);
    }
    window.setTimeout(fill, 300); // that a field was emptied changes nothing that could be observed
  };
  window.addEventListener("input", event => {
    if (away === null || !event.isTrusted) return;
    if (until) away.fields.delete(event.target.ariaLabel); else watch();
  }, true);

  // Tables as CSV. Streamlit has a button for its big tables alone, which it shows where the pointer or the focus is.
  // Small tables get one of the same kind, of the cells as they are read: icons are left out, numbers are plain, and
  // no spreadsheet runs a cell as a formula.
  const NUMBER = /^[+\u2212-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$/, FORMULA = /^[=+@\t\r-]/;
  const titled = table => `Download as CSV: ${table.ariaLabel ?? "table"}`;
  const spoken = one => {
    const copy = one.cloneNode(true);
    copy.querySelectorAll("[data-testid=stIconMaterial], [aria-hidden=true], [role=img]").forEach(icon => icon.remove());
    return copy.textContent.trim();
  };
  const read = cell => {
    const text = spoken(cell);
    if (NUMBER.test(text)) return text.replaceAll(",", "").replace("\u2212", "-");
    return FORMULA.test(text) ? `'${text}` : text;
  };
  const written = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const csv = table => Array.from(table.rows, row => `${Array.from(row.cells, cell => written(read(cell)))}\n`).join("");

  const offerCsv = one => {
    const table = one.querySelector("table");
    let button = one.querySelector(":scope > .armscope-csv");
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      button.className = "armscope-csv";
      button.textContent = "CSV";
      one.append(button);
    }
    if (button.ariaLabel !== titled(table)) button.ariaLabel = titled(table);
  };
  window.addEventListener("click", event => {
    const table = event.target.closest(".armscope-csv")?.parentElement.querySelector("table");
    if (!table) return;
    const link = document.createElement("a");
    const name = (table.ariaLabel ?? "table").toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60);
    link.href = URL.createObjectURL(new Blob(["\ufeff", csv(table)], { type: "text/csv;charset=utf-8" }));
    link.download = `armscope-${name.replace(/^-|-$/g, "")}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  }, true);

  // Rows are heard as a list. Links and buttons of one name say of what: the row, the heading beside, or the field.
  const named = (act, of) => { if (of) act.ariaLabel = `${spoken(act) || (act.dataset.called ??= act.ariaLabel)}: ${of}`; };
  const listed = list => {
    list.setAttribute("role", "list");
    for (const row of list.querySelectorAll(":scope > * > [data-testid=stHorizontalBlock]")) {
      const texts = [...row.querySelectorAll("[data-testid=stMarkdown] p")].map(spoken).filter(text => text);
      row.setAttribute("role", "listitem");
      row.querySelectorAll("a, button").forEach(act => named(act, texts.join(" ")));
    }
  };
  const headed = row => {
    const heading = row.querySelector(":scope > * h2");
    if (heading) row.querySelectorAll("a, button").forEach(act => named(act, spoken(heading)));
  };
  const fielded = act => named(act, act.closest("[data-testid=stElementContainer]").querySelector("input")?.ariaLabel);

  // What a reader of the page hears, where Streamlit's own marks contradict each other: the navigation on a phone is a
  // list whose items lie in boxes, the place where files are dropped says that it is only decoration, and a table or
  // a box that scrolls can't be reached by keys in every browser.
  const MENDED = [
    ["ul[data-testid=stSidebarNavItems], ul[data-testid=stSidebarNavItems] li", one => one.setAttribute("role", "none")],
    ["section[data-testid=stFileUploaderDropzone]", one => one.setAttribute("role", "group")],
    ["[data-testid=stTable] > div", one => { if (one.scrollWidth > one.clientWidth) one.tabIndex = 0; }],
    ["[data-testid=stTable]:has(table)", offerCsv],
    // Streamlit's box about the connection would lie over our line, and over what was typed.
    ["[data-testid=stDialog]", one => {
      if (line.isConnected && one.innerText.startsWith("Connection error")) one.querySelector("button[aria-label=Close]")?.click();
    }],
    ["[class*=st-key-list-of]", listed],
    ["[data-testid=stMain] [data-testid=stHorizontalBlock]:has(> * h2):not(:has([data-testid=stVerticalBlock]))", headed],
    ["[data-testid=stNumberInput] button, [data-testid=stSelectbox] button", fielded],
    ["[data-testid=stCode] button", one => named(one, spoken(one.closest("[data-testid=stCode]").querySelector("code")))],
    ["[data-testid=stMarkdown] [role=img][aria-label$=' icon']", one => one.setAttribute("aria-hidden", "true")],
    ["[data-testid=stVerticalBlock][overflow=auto]", one => {
      if (one.scrollHeight > one.clientHeight) one.tabIndex = 0; else one.removeAttribute("tabindex");
    }],
  ];
  let due = false;
  const mend = () => {
    due = false;
    watch();
    begin();
    for (const [what, how] of MENDED) document.querySelectorAll(what).forEach(how);
  };
  new MutationObserver(() => {
    if (!due) window.requestAnimationFrame(mend);
    due = true;
  }).observe(document, { childList: true, subtree: true });
})();
