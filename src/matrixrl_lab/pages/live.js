// The live page of an experiment.

const WORDS = { done: "done", running: "running", pending: "waiting", failed: "failed" };
const RATE_WINDOW = 60000;  // milliseconds over which the speed is measured
const QUIET_AFTER = 30000;  // milliseconds without new episodes after which the page says so

let looks = [];        // colours and dash of each agent, by its position in the spec
let latest = null;     // the last snapshot with an experiment
let shown = "";        // hash of the experiment that the page shows
let lost = false;      // whether the connection is lost
let problem = null;    // error message about the store
let marks = [];        // [time, episodes settled] of recent snapshots, for the speed
let panels = [];       // {section, chart} of each environment
let rows = new Map();  // cell number -> elements of its row

const settled = (p) => p.stored + p.lost;
function percentOf(p) {
  // Show 100 only after the last episode, and 0 only before the first.
  const share = Math.floor((100 * settled(p)) / p.total);
  return settled(p) > 0 ? Math.max(1, share) : 0;
}
function fillBar(bar, p) {
  bar.setAttribute("aria-valuenow", String(percentOf(p)));
  bar.querySelector(".stored").style.width = `${(100 * p.stored) / p.total}%`;
  bar.querySelector(".lost").style.width = `${(100 * p.lost) / p.total}%`;
}

function timeLeft() {
  const p = latest.progress, now = Date.now();
  if (latest.finished || marks.length === 0) return "";
  const [since, before] = marks[0], [last, count] = marks[marks.length - 1];
  if (now - last > QUIET_AFTER) return `no new episodes for ${duration((now - last) / 1000)}`;
  if (count <= before) return "measuring the speed …";
  const rate = (count - before) / (last - since);
  return `about ${duration((p.total - count) / rate / 1000)} left`;
}
function note(p) {
  const now = Date.now(), count = settled(p);
  const previous = marks.at(-1);
  if (previous && count < previous[1]) marks = [];  // some seeds have started again
  if (marks.length === 0 || count > marks.at(-1)[1]) marks.push([now, count]);
  while (marks.length > 2 && now - marks[0][0] > RATE_WINDOW) marks.shift();
}

function notify() {
  drawNotice(lost ? LOST : problem);
}

function drawOverall() {
  const p = latest.progress, failed = p.failed > 0;
  const words = latest.finished ? (failed ? "Finished, with failures" : "Finished") : p.stored ? "Running" : "Waiting";
  const state = at("state");
  say(state, words);
  state.className = `state ${latest.finished ? (failed ? "failed" : "done") : p.stored ? "running" : "pending"}`;
  at("percent").textContent = `${percentOf(p)} %`;
  at("left").textContent = timeLeft();
  fillBar(at("bar"), p);
  const parts = [`${p.stored.toLocaleString("en")} of ${plural(p.total, "episode")}`];
  for (const key of ["done", "running", "pending", "failed"]) {
    if (p[key]) parts.push(`${plural(p[key], "run")} ${WORDS[key]}`);
  }
  at("counts").textContent = parts.join(" · ");
  document.title = `${latest.finished ? "finished" : percentOf(p) + " %"} · ${latest.title}`;
}

function drawFailures() {
  at("failures").hidden = latest.failures.length === 0;
  at("failures").querySelector("ul").replaceChildren(...latest.failures.map((f) => {
    const item = make("li", `${f.environment} / ${f.agent}, ${seedsOf(f.seeds)}`);
    item.append(make("span", f.reason, "reason"));
    return item;
  }));
}
function seedsOf(seeds) {
  const some = seeds.slice(0, 12).join(", ");
  return `${seeds.length === 1 ? "seed" : "seeds"} ${some}${seeds.length > 12 ? `, … (${seeds.length} in all)` : ""}`;
}

function build() {
  shown = latest.hash;
  marks = [];
  at("title").textContent = latest.title;
  at("where").textContent = `${latest.folder} · ${plural(latest.seeds, "seed")} × ` +
    `${plural(latest.episodes, "episode")} in each cell · ${latest.name} ${latest.hash}`;
  for (const { chart } of panels) if (window.Plotly) Plotly.purge(chart);
  panels = latest.environments.map((env) => {
    const section = make("section"), heading = make("h2", env.id), chart = make("div", undefined, "chart");
    const regret = env.measure === "regret";
    section.setAttribute("aria-label", env.id);
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", `${regret ? "Cumulative regret" : "Return"} of each agent against episodes`);
    section.append(heading, chart);
    return { section, chart };
  });
  at("panels").replaceChildren(...panels.map((panel) => panel.section));
  rows = new Map();
  const table = at("cells").querySelector("table");
  for (const body of [...table.tBodies]) body.remove();
  for (const env of latest.environments) {
    const body = make("tbody"), group = make("tr"), name = make("th", env.id);
    name.scope = "rowgroup";
    name.colSpan = 6;
    group.append(name);
    body.append(group, ...env.cells.map((cell) => buildRow(env, cell)));
    table.append(body);
  }
  at("overall").hidden = at("cells").hidden = false;
}

function buildRow(env, cell) {
  const state = make("span", "", "state"), bar = make("div", undefined, "bar");
  bar.append(make("div", undefined, "stored"), make("div", undefined, "lost"));
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-label", `${env.id} / ${cell.agent}`);
  bar.setAttribute("aria-valuemin", "0");
  bar.setAttribute("aria-valuemax", "100");
  const numbers = [make("td", "", "number"), make("td", "", "number"), make("td", "", "number")];
  const row = make("tr"), first = make("td"), second = make("td");
  first.append(state);
  second.append(bar);
  row.append(make("td", cell.agent), first, second, ...numbers);
  rows.set(cell.cell, { state, bar, seeds: numbers[0], episode: numbers[1], value: numbers[2] });
  return row;
}

function drawRows() {
  for (const env of latest.environments) {
    for (const cell of env.cells) {
      const row = rows.get(cell.cell);
      row.state.className = `state ${cell.status}`;
      row.state.textContent = WORDS[cell.status];
      row.seeds.textContent = `${cell.done} of ${latest.seeds}` + (cell.failed ? `, ${cell.failed} failed` : "");
      row.episode.textContent = (cell.curve.episode.at(-1) ?? 0).toLocaleString("en");
      const value = cell.curve.mean.at(-1);
      row.value.textContent = value === undefined ? "–" : `${env.measure} ${figure(value)}`;
      fillBar(row.bar, cell);
    }
  }
}

function drawCharts() {
  if (!window.Plotly || !latest) return;
  const agentColour = (k) => looks[k % looks.length][isDark() ? "on_dark" : "colour"];
  latest.environments.forEach((env, i) => {
    const chart = panels[i].chart, wide = chart.clientWidth;
    const most = Math.max(12, Math.floor((wide - 70) / 7.5));  // characters that fit in one line of the legend
    // Every agent always has a trace, at first with one empty point, so that hidden agents and zoom are kept.
    const traces = env.cells.map((cell, k) => ({
      type: "scatter", mode: cell.curve.episode.length === 1 ? "markers" : "lines", uid: `cell-${cell.cell}`,
      x: cell.curve.episode.length ? cell.curve.episode : [null], y: cell.curve.mean.length ? cell.curve.mean : [null],
      name: plain(short(cell.agent, most)),
      line: { color: agentColour(k), dash: looks[k % looks.length].dash, width: 2 }, marker: { color: agentColour(k) },
      hovertemplate: `%{y:,.4~g} (${plural(cell.curve_seeds, "seed")})<extra>${
        plain(short(cell.agent, 40)).replaceAll("%", "&#37;")}</extra>`,
    }));
    const grow = env.cells.length * 20 + 20;
    const layout = chartLayout({
      height: 320 + grow, margin: { t: 30, r: 12, b: 40 + grow, l: 50, autoexpand: true }, uirevision: shown,
      xaxis: { title: { text: "episode" }, rangemode: "tozero" },
      yaxis: { title: { text: env.measure === "regret" ? "cumulative regret" : "return" },
        rangemode: env.measure === "regret" ? "tozero" : "normal" },
      showlegend: true, legend: { orientation: "v", x: 0, y: 0, yref: "container", yanchor: "bottom" },
    });
    Plotly.react(chart, traces, layout, CHART_CONFIG);
  });
}

function take(text) {
  const found = JSON.parse(text);
  problem = found.problem;
  if (!problem) {
    latest = found;
    if (latest.hash !== shown) build();
    note(latest.progress);
    drawOverall();
    drawFailures();
    drawRows();
    drawCharts();
  }
  notify();
}

function listen() {
  const source = new EventSource("/events");
  source.onopen = () => { lost = false; notify(); };
  source.onmessage = (event) => { lost = false; take(event.data); };
  source.onerror = () => {
    lost = true;
    notify();
    // The browser reconnects by itself unless another program answered on this port.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

document.addEventListener("DOMContentLoaded", () => {
  looks = JSON.parse(at("looks").textContent);
  useThemes(drawCharts);
  listen();
  setInterval(() => { if (latest) at("left").textContent = timeLeft(); }, 1000);
});
