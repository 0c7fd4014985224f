// Draws the charts from the JSON data of the page, and updates them when the theme, the width or the measure changes.
(function () {
  "use strict";
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const NARROW = 700; // width in pixels below which legends are placed under the chart
  const LINE = 16, ENTRY = 2.5; // height in pixels of one line of a legend, and the space between two entries
  const FAINTEST = 1e-5; // share of the largest value; smaller values on a logarithmic axis are rounding errors
  const CONFIG = {
    responsive: true, displaylogo: false, doubleClick: "reset",
    // An explicit list, because some versions of Plotly add a button that uploads the chart.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: "",
    toImageButtonOptions: { scale: 2 },
  };
  let measure = "mean";

  const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
  const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isNarrow = () => window.innerWidth <= NARROW;
  const isCurve = (t) => t.agent !== undefined;
  const isLog = (chart) => chart.kind === "loglog";
  const isProfile = (chart) => chart.kind === "profile";

  // Plotly interprets some HTML and %{…} in names; escaping keeps them plain text.
  function safe(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%/g, "&#37;");
  }

  function wrapped(label, width) {
    const lines = [];
    for (const paragraph of label.split("\n")) {
      let line = "";
      for (let word of paragraph.split(" ")) {
        while (word.length > width) {
          if (line) { lines.push(line); line = ""; }
          lines.push(word.slice(0, width));
          word = word.slice(width);
        }
        if (line && line.length + 1 + word.length > width) { lines.push(line); line = word; }
        else line = line ? line + " " + word : word;
      }
      lines.push(line);
    }
    return lines;
  }

  function faded(colour, alpha) {
    const part = (i) => parseInt(colour.slice(i, i + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
  }

  function nameOf(t) {
    return wrapped(t.label, isNarrow() ? 36 : 30).map(safe).join("<br>");
  }

  function shownY(chart, t) {
    if (measure === "mean" || isProfile(chart)) return t.y;
    // nulls, not an empty array: Plotly drops an empty band when its curve is hidden
    return t.part === "band" ? t.y.map(() => null) : t[measure] || t.y;
  }

  function hasLegend(t) {
    return t.part !== "band" && t.part !== "area" && t.part !== "upper";
  }

  // Certified areas overlap, so they are fainter if there are more of them.
  function areaAlpha(chart) {
    return 0.25 / (1 + chart.traces.filter((t) => t.part === "area").length);
  }

  function groupOf(t, i) {
    return isCurve(t) ? "agent " + t.agent : "other " + i;
  }

  function styleOf(chart, t) {
    const colour = isCurve(t) ? (isDark() ? t.on_dark : t.colour) : paint(t.part === "optimum" ? "--ink" : "--soft");
    const filled = t.part === "band" || t.part === "area";
    const thin = { bound: 1.5, slope: 1.2, optimum: 3, lower: 1.6, upper: 1.6 }[t.part];
    return {
      line: filled ? { width: 0, color: colour } : { width: thin || 2.2, color: colour, dash: t.dash },
      marker: { color: colour, size: 8 },
      fillcolor: filled ? faded(colour, t.part === "band" ? 0.2 : areaAlpha(chart)) : undefined,
    };
  }

  function traceOf(chart, t, i) {
    const filled = t.part === "band" || t.part === "area";
    const edge = t.part === "lower" || t.part === "upper" ? t.part + " " : "";
    return {
      type: "scatter", mode: t.text ? "lines+text" : t.x.length > 1 ? "lines" : "lines+markers", text: t.text, textposition: "top left", x: t.x, y: shownY(chart, t), name: nameOf(t),
      meta: { agent: t.agent, part: t.part, kind: t.kind },
      legendgroup: groupOf(t, i), showlegend: hasLegend(t), visible: t.off ? "legendonly" : true,
      fill: filled ? "toself" : "none", hoverinfo: filled ? "skip" : undefined,
      hovertemplate: filled ? undefined : isProfile(chart) ? "τ = %{x:.4~g}: %{y:.1%} of runs" : `episode %{x:,}: ${edge}%{y:,.4~g}`,
      ...styleOf(chart, t),
    };
  }

  function legendHeight(chart) {
    const names = chart.traces.filter(hasLegend).map(nameOf);
    return names.reduce((sum, name) => sum + ENTRY + LINE * name.split("<br>").length, 10);
  }

  // The y-axis fits the visible curves; a visible bound may exceed it on a linear axis.
  function yRange(chart, visible) {
    let low = Infinity, high = -Infinity;
    chart.traces.forEach((t, i) => {
      if (isLog(chart) && t.part === "band") return; // the logarithm of a band near zero would extend the axis far down
      const counts = isCurve(t) || t.part === "optimum" || (t.part === "bound" && isLog(chart));
      if (!counts || visible[i] !== true) return;
      for (const y of shownY(chart, t)) if (y !== null) { low = Math.min(low, y); high = Math.max(high, y); }
    });
    if (low > high) return null;
    if (isProfile(chart)) return [-0.02, 1.02];
    if (isLog(chart)) {
      const bottom = Math.log10(Math.max(low, FAINTEST * high)), top = Math.log10(high);
      const room = 0.05 * Math.max(top - bottom, 1);
      return [bottom - room, top + room];
    }
    if (chart.kind === "regret") low = Math.min(0, low);
    const room = 0.05 * (high - low || 1);
    return [low < 0 || chart.kind !== "regret" ? low - room : 0, high + room];
  }

  function layoutOf(chart, visible) {
    const narrow = isNarrow(), below = legendHeight(chart), log = isLog(chart);
    const axis = { gridcolor: paint("--line"), zerolinecolor: paint("--line"), linecolor: paint("--soft"), automargin: true };
    const power = (range) => (range && range[1] - range[0] > 1.4 ? { dtick: 1, exponentformat: "power" } : { dtick: "D2" });
    const last = Math.max(...chart.traces.filter((t) => t.part === "line" || t.part === "upper").map((t) => t.x[t.x.length - 1]));
    const logX = log || chart.kind === "certificates";
    const range = yRange(chart, visible), first = chart.traces[0].x[0];
    return {
      height: narrow ? 330 + below : Math.max(430, 110 + below),
      margin: narrow ? { l: 50, r: 8, t: 10, b: 60 + below } : { l: 64, r: 10, t: 34, b: 50 },
      font: { family: "system-ui, sans-serif", size: 13, color: paint("--ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
      hoverlabel: { namelength: -1, bgcolor: paint("--raised"), bordercolor: paint("--line"), font: { color: paint("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: paint("--soft"), activecolor: paint("--accent") },
      xaxis: {
        ...axis, title: { text: chart.x_title || "episode N", standoff: 8 },
        ...(isProfile(chart) ? { range: [first, last], tickformat: ".3~g", nticks: narrow ? 5 : 9 } : logX ? { type: "log", ...power([0, Math.log10(last)]), range: [0, Math.log10(Math.max(last, 2))] } : { range: [0, last], tickformat: "~s", nticks: narrow ? 5 : 9 }),
      },
      yaxis: {
        ...axis, title: { text: chart.y_title, standoff: 8 },
        ...(log ? { type: "log", ...power(range) } : { tickformat: isProfile(chart) ? ".0%" : "~s", nticks: 7 }),
        ...(range ? { range: range } : {}),
      },
      legend: narrow
        ? { orientation: "h", entrywidth: window.innerWidth - 90, x: 0, xref: "container", xanchor: "left", y: 0, yref: "container", yanchor: "bottom", maxheight: 5000, font: { size: 12 }, itemwidth: 40, tracegroupgap: 0 }
        : { x: 1.01, xanchor: "left", y: 1, yanchor: "top", maxheight: 5000, font: { size: 12 }, itemwidth: 40, tracegroupgap: 0 },
    };
  }

  const visibleOf = (box) => box._fullData.map((t) => t.visible);
  const everyTrace = (chart) => chart.traces.map((_, i) => i);

  function refresh(chart) {
    const box = document.getElementById(chart.id), styles = chart.traces.map((t) => styleOf(chart, t));
    Plotly.update(
      box,
      { y: chart.traces.map((t) => shownY(chart, t)), name: chart.traces.map(nameOf), line: styles.map((s) => s.line), marker: styles.map((s) => s.marker), fillcolor: styles.map((s) => s.fillcolor) },
      layoutOf(chart, visibleOf(box)), everyTrace(chart),
    );
  }

  for (const chart of charts) {
    const box = document.getElementById(chart.id);
    const visible = chart.traces.map((t) => (t.off ? "legendonly" : true));
    Plotly.newPlot(box, chart.traces.map((t, i) => traceOf(chart, t, i)), layoutOf(chart, visible), { ...CONFIG, displayModeBar: isNarrow() ? false : "hover" });
    box.on("plotly_restyle", (event) => {
      if (!("visible" in event[0])) return;
      const range = yRange(chart, visibleOf(box)); // the remaining curves may be much lower
      if (range) Plotly.relayout(box, { "yaxis.range": range });
    });
  }

  for (const button of document.querySelectorAll("button.measure")) {
    button.addEventListener("click", () => {
      measure = button.dataset.measure;
      for (const other of document.querySelectorAll("button.measure")) other.setAttribute("aria-pressed", String(other === button));
      document.getElementById("measure-note").hidden = measure === "mean";
      document.getElementById("measure-name").textContent = measure === "iqm" ? "interquartile mean" : measure;
      charts.forEach(refresh);
    });
  }

  document.getElementById("theme").addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("matrixrl-theme", next); } catch (_) { /* the choice is lost with the page */ }
    charts.forEach(refresh);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(refresh));
  matchMedia(`(max-width: ${NARROW}px)`).addEventListener("change", () => charts.forEach(refresh));

  function sortBy(button) {
    const heading = button.closest("th"), table = heading.closest("table"), body = table.tBodies[0];
    const column = heading.cellIndex, isNumber = button.dataset.kind === "number";
    const next = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of heading.parentElement.cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", next);
    const sign = next === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value;
    const rows = Array.from(body.rows).sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === "" || y === "") return (x === "") - (y === ""); // unknown values stay last
      return sign * (isNumber ? Number(x) - Number(y) : x.localeCompare(y));
    });
    body.append(...rows);
  }
  for (const button of document.querySelectorAll(".sortable thead button")) button.addEventListener("click", () => sortBy(button));
})();
