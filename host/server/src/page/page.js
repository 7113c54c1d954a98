"use strict";
// Shows news of a run without losing the reader's place. Without this script, reloading the page does the same.
(() => {
  const live = document.body.dataset.live;
  if (!live || !window.EventSource) return;
  let due = null;
  const refresh = async () => {
    due = null;
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = document.getElementById("main");
    const fresh = next.getElementById("main");
    if (!main || !fresh || main.contains(document.activeElement)) return;
    for (const open of main.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector("#" + CSS.escape(open.id));
      if (same) same.open = true;
    }
    main.replaceWith(document.adoptNode(fresh));
    if (!next.body.dataset.live) source.close();
  };
  const source = new EventSource(live);
  const kinds = ["step-entered", "step-finished", "step-called", "element-called", "requested", "replied", "wait-started", "signal-received", "run-finished"];
  for (const kind of kinds) source.addEventListener(kind, () => { due = due || setTimeout(refresh, 400); });
  source.addEventListener("run-finished", () => source.close());
})();
