// Runs before the page is drawn, so that a dark page does not flash white.
(function () {
  "use strict";
  try {
    const kept = localStorage.getItem("matrixrl-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch (_) { /* some browsers have no storage for local files */ }
})();
