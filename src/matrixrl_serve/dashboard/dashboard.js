// The dashboard of a service: follows a stream of what goes on, and asks for the page of states that is shown.

const TOKEN = "matrixrl-token";
const RETRY = 1000;      // milliseconds until the next attempt to connect
const PATIENCE = 15000;  // milliseconds without a sign of life after which a connection counts as lost
const RELOAD = 2000;     // milliseconds between two looks at the table of states, if nobody asks for one
const LIST = 25;         // open episodes that are listed at most, as many as the service sends

let now = null;          // what goes on
let plan = null;         // what is proven
let visits = null;       // what was counted
let page = null;         // the page of states that is shown
let clockAhead = 0;      // milliseconds that the clock of the service is ahead of ours
let measure = "visits";
const view = { stage: 0, search: "", sort: "state", descending: false, page: 0 };

// The token: kept for this tab, and only ever sent in a header.

function readToken() {
  try { return sessionStorage.getItem(TOKEN); } catch { return keptToken; }  // storage may be disabled
}
let keptToken = null, leave = () => {};  // what the button "Sign out" does
function keepToken(token) {
  keptToken = token;
  try {
    if (token === null) sessionStorage.removeItem(TOKEN); else sessionStorage.setItem(TOKEN, token);
  } catch { /* it is kept until the page is loaded again */ }
}
function ask(address, more) {
  const token = readToken();
  return fetch(address, { cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {}, ...more });
}
async function wordsOf(answer) {
  try { return (await answer.json()).error; } catch { return `the service answered with status ${answer.status}`; }
}

function showSignIn(words) {
  const tried = readToken() !== null;
  keepToken(null);
  now = plan = visits = page = null;
  at("shown").hidden = at("sign-out").hidden = true;
  at("sign-in").hidden = false;
  at("refusal").hidden = !tried;
  say(at("refusal"), tried ? `The token was refused: ${words}` : "");
  say(at("title"), "matrixrl serve");
  document.title = "matrixrl serve";
  at("where").textContent = "";
  at("token").value = "";
  at("token").focus();
  drawNotice(null);
}

// The stream

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

async function listen() {
  while (await follow()) await pause(RETRY);
}

// Follow the stream until it ends; return whether to try again.
async function follow() {
  const control = new AbortController();
  let heard = Date.now(), words = LOST, hasLeft = false;
  leave = () => { hasLeft = true; control.abort(); };
  const watch = setInterval(() => { if (Date.now() - heard > PATIENCE) control.abort(); }, 1000);
  try {
    const answer = await ask("v1/stream", { signal: control.signal });
    if (answer.status === 401 || answer.status === 403) {
      showSignIn(await wordsOf(answer));
      return false;
    }
    if (!answer.ok) {
      words = `${LOST} (${await wordsOf(answer)})`;
    } else {
      const date = Date.parse(answer.headers.get("date"));
      clockAhead = Number.isNaN(date) ? 0 : date - Date.now();
      at("sign-in").hidden = true;
      at("sign-out").hidden = readToken() === null;
      drawNotice(null);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        heard = Date.now();
        const whole = (rest + value).split("\n\n");
        rest = whole.pop();
        whole.forEach(take);
      }
    }
  } catch { /* the network failed, or nothing came for long */ } finally {
    clearInterval(watch);
  }
  if (hasLeft) {
    keepToken(null);
    showSignIn("");
    return false;
  }
  drawNotice(words);
  return true;
}

function take(text) {
  const fields = Object.fromEntries(text.split("\n").map((line) => {
    const colon = line.indexOf(": ");
    return [line.slice(0, colon), line.slice(colon + 2)];
  }));
  if (!fields.event) return;  // a sign of life
  const data = JSON.parse(fields.data);
  if (fields.event === "now") { now = data; drawNow(); }
  if (fields.event === "plan") { plan = data; drawPlan(); loadSoon(); }
  if (fields.event === "visits") { visits = data; loadSoon(); }
  at("shown").hidden = !now || !plan;
  if (now && plan) { drawAlarms(); drawCharts(); drawPromotion(); }
}

// Tables; all words are set as text, because names are those of users.

function fill(table, rows) {
  at(table).tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = make("tr");
    row.append(...cells.map(([text, name]) => make("td", text, name)));
    return row;
  }));
}
function ago(time) {
  return `${duration(Math.max(1, (Date.now() + clockAhead) / 1000 - time))} ago`;
}
function clockTime(time) {
  const then = new Date(time * 1000), sameDay = then.toDateString() === new Date().toDateString();
  const clock = then.toLocaleTimeString("en-GB");
  return sameDay ? clock : `${then.toLocaleDateString("en-CA")} ${clock}`;
}

const MODES = { shadow: "the application decides, the service watches", live: "the service decides and learns",
  frozen: "the service decides and learns nothing" };

function drawNow() {
  say(at("title"), now.name);
  document.title = `${now.mode} · ${now.name}`;
  say(at("mode"), now.mode);
  at("mode").className = now.mode;
  at("follows").textContent = MODES[now.mode] ?? "";
  at("open").textContent = now.n_open.toLocaleString("en");
  at("opened").textContent = `${now.n_opened.toLocaleString("en")} opened so far`;
  at("decisions").textContent = (now.minutes.at(-1) ?? 0).toLocaleString("en");
  at("asked").textContent = `${now.n_asked.toLocaleString("en")} so far`;
  drawEpisodes();
  fill("events", now.events.map((event) => [
    [clockTime(event.at), "number"], [event.kind.replace("_", " ")], [event.words, "long"], [event.actor, "name"],
    [event.episode ?? "", "name"],
  ]));
}

function drawEpisodes() {
  const some = now.n_open > LIST ? `The oldest ${LIST} of ${now.n_open.toLocaleString("en")}.` : "";
  const held = now.held_back
    ? ` ${plural(now.held_back, "episode")} opened later and over by now: nothing is learned from them before the oldest open one is over.`
    : "";
  at("episodes-note").textContent = now.n_open ? some + held : "None is open.";
  fill("episodes", now.episodes.map((one) => [
    [one.episode, "name"], [one.actor, "name"], [ago(one.opened_at)], [ago(one.touched_at)], [one.mode],
    [String(one.plan), "number"], [String(one.steps), "number"], [String(one.reported), "number"],
  ]));
}

function drawAlarms() {
  const words = [];
  if (now.log) words.push(`The log cannot be used: ${now.log}`);
  if (now.learner) words.push(`Nothing new is learned: ${now.learner}`);
  if (now.alarm) words.push(`Alarm: ${now.alarm}`);
  if (!plan.certificate.guarantee.holds) words.push(`The bounds are not proven: ${plan.certificate.guarantee.reason}`);
  at("alarms").hidden = words.length === 0;
  const list = at("alarms").querySelector("ul");
  if (list.innerText !== words.join("\n")) list.replaceChildren(...words.map((text) => make("li", text)));
}

const percent = (share) => `${(100 * share).toLocaleString("en", { maximumFractionDigits: 3 })} %`;

function drawPlan() {
  const shown = plan.certificate, proven = shown.guarantee.holds;
  at("lower").textContent = figure(shown.lower);
  at("upper").textContent = figure(shown.upper);
  at("gap").textContent = figure(shown.gap);
  at("learned").textContent = `from ${plural(plan.episodes, "episode")}`;
  const chance = proven ? `proven, with probability ${percent(1 - shown.delta)}` : "estimated, not proven";
  const left = shown.share_left == null ? "" : `; ${percent(shown.share_left)} of what is possible is left`;
  const start = shown.start ? `; start: ${shown.start}` : "";
  at("chance").textContent = `${chance}${left}${start}`;
  at("estimate").textContent = shown.estimate == null ? "" : `estimated ${figure(shown.estimate)}, which is no bound`;
  at("stage").max = String(plan.horizon);
  at("stage-label").hidden = plan.horizon === 1;
  at("differences-panel").hidden = plan.incumbent === null;
  at("changes").replaceChildren(...plan.changes.map((change) =>
    make("li", `${clockTime(change.at)}: ${change.kind}, ${change.words} (by ${change.actor})`)));
}

function drawPromotion() {
  at("model").textContent = plan.plan.toLocaleString("en");
  const learner = now.behind === null ? "another process learns" : now.behind > 100 ? `learner ${plural(now.behind, "event")} behind` : "learner up to date";
  at("learner").textContent = now.learner ? "learner stopped" : learner;
  say(at("promotion-words"), promotionWords());
  at("where").textContent = `matrixrl ${now.library} · problem ${plan.digest.slice(0, 12)} · ` +
    `bounds are in the unit of the rewards and hold for all plans at once · ${plan.assumptions ?? ""}`;
}

function promotionWords() {
  const found = plan.comparison;
  if (plan.incumbent === null) return `Mode ${now.mode}: ${MODES[now.mode]}. No incumbent is declared to compare with.`;
  const whose = plan.incumbent === "logged" && found.incumbent_upper !== undefined
    ? ` The incumbent earns at most ${figure(found.incumbent_upper)}, from ${plural(found.incumbent_episodes, "episode")}.`
    : "";
  const sure = found.guarantee.holds ? `With probability ${percent(1 - found.delta)}, the` : "Not proven: the";
  const words = `${sure} recommended policy earns between ${figure(found.lower)} and ${figure(found.upper)} more in an ` +
    `episode than the incumbent${found.start ? ` (start: ${found.start})` : ""}.${whose}`;
  if (now.mode !== "shadow") return words;
  if (!plan.promote) return `${words} The mode changes only on request.`;
  if (now.alarm) return `${words} It does not take over, because an alarm was raised.`;
  if (!found.guarantee.holds) return `${words} It does not take over without a proof.`;
  if (now.mode_by_request) return `${words} It does not take over, because this mode was chosen by a request.`;
  if (found.lower > 0) return `${words} It takes over with the next plan.`;
  return `${words} It takes over once the lower end is above 0${found.lower < 0 ? `: ${figure(-found.lower)} to go` : ""}.`;
}

// Charts

function faded(colour) {
  const part = (i) => parseInt(colour.slice(i, i + 2), 16);
  return `rgba(${part(1)},${part(3)},${part(5)},0.18)`;
}

let drawn = "";  // what the charts show
function drawCharts(force) {
  if (!window.Plotly || !now || !plan) return;
  const state = JSON.stringify([plan.plan, plan.curves.plan.length, now.minutes]);
  if (state === drawn && force !== true) return;
  drawn = state;
  const { episodes, lower, upper, better_by: low, better_by_most: high } = plan.curves;
  band("values", episodes, lower, upper, ["recommended: at least", "best: at most"], "value");
  lines("gaps", [{ x: episodes, y: upper.map((y, i) => y - lower[i]), name: "gap", ...line("--fill") }],
    { yaxis: { title: { text: "gap" }, rangemode: "tozero" }, showlegend: false });
  if (plan.incumbent !== null) {
    band("differences", episodes, low, high, ["at least", "at most"], "difference", [{
      type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { color: paint("--ink"), width: 1.5, dash: "dot" },
    }]);
  }
  const count = now.minutes.length;
  const bars = { type: "bar", x: now.minutes.map((_, i) => count - 1 - i), y: now.minutes,
    marker: { color: paint("--fill") }, hovertemplate: "%{y:,} decisions<extra></extra>" };
  lines("minutes", [bars], {
    xaxis: { title: { text: "minutes ago" }, range: [Math.max(count, 10) - 0.4, -0.6], rangemode: "normal" },
    yaxis: { title: { text: "decisions" }, rangemode: "tozero" }, showlegend: false,
  });
}
function line(name, dash) {
  return { type: "scatter", mode: "lines", line: { color: paint(name), width: 2, shape: "hv", dash },
    hovertemplate: "%{y:,.4~g}" };
}
function band(chart, x, lower, upper, names, title, shapes = []) {
  const point = x.length === 1 ? { mode: "markers", marker: { size: 8 } } : {};
  lines(chart, [
    { x, y: lower, name: names[0], ...line("--fill"), ...point, marker: { color: paint("--fill") } },
    { x, y: upper, name: names[1], ...line("--fill-bad"), ...point, marker: { color: paint("--fill-bad") },
      fill: "tonexty", fillcolor: faded(paint("--fill")) },
  ], { yaxis: { title: { text: title } }, shapes });
}
function lines(chart, traces, { xaxis, yaxis, ...more }) {
  const layout = chartLayout({
    height: 300, margin: { t: 10, r: 12, b: 40, l: 50, autoexpand: true }, uirevision: "kept", showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    xaxis: { title: { text: "episodes learned from" }, rangemode: "tozero", ...xaxis }, yaxis, ...more,
  });
  Plotly.react(at(chart), traces, layout, { ...CHART_CONFIG, displayModeBar: false });
}

// The table of states

let loading = null, loadedAt = 0, request = 0;
function loadSoon() {
  if (loading === null) loading = setTimeout(load, Math.max(0, loadedAt + RELOAD - Date.now()));
}
async function load() {
  clearTimeout(loading);
  loading = null;
  loadedAt = Date.now();
  const mine = ++request;
  try {
    const answer = await ask(`v1/states?${new URLSearchParams(view)}`);
    if (!answer.ok || mine !== request) return;  // the stream says what is wrong
    page = await answer.json();
    view.page = page.page;
    drawStates();
  } catch { /* the connection is lost, which the stream says */ }
}
function change(what, keepPage) {
  Object.assign(view, keepPage ? {} : { page: 0 }, what);
  load();
}

function drawStates() {
  const withIncumbent = page.states.some((row) => row.incumbent !== null);
  for (const cell of document.querySelectorAll("#policy th.incumbent")) cell.hidden = !withIncumbent;
  for (const cell of document.querySelectorAll("#policy th[data-sort]")) {
    const order = view.descending ? "descending" : "ascending";
    cell.setAttribute("aria-sort", cell.dataset.sort === view.sort ? order : "none");
  }
  fill("policy", page.states.map((row) => [
    [row.state, "name"], [row.action, "name"], ...(withIncumbent ? [[row.incumbent, "name"]] : []),
    [row.visits.toLocaleString("en"), "number"], [figure(row.lower), "number"], [figure(row.upper), "number"],
    [figure(row.upper - row.lower), "number"],
  ]));
  const few = page.n_found < page.n_states ? ` of ${page.n_states.toLocaleString("en")}` : "";
  at("page").textContent = `page ${page.page + 1} of ${page.n_pages}, ${page.n_found.toLocaleString("en")}${few} states`;
  at("back").disabled = page.page === 0;
  at("forth").disabled = page.page + 1 >= page.n_pages;
  drawPairs();
}

function drawPairs() {
  const cells = page[measure], most = Math.max(...cells.flat().filter((cell) => cell !== null), 1e-12);
  const corner = make("th", "State"), head = make("tr");
  head.append(corner, ...page.actions.map((action) => {
    const cell = make("th", action);
    cell.title = action;
    return cell;
  }));
  for (const cell of head.cells) cell.scope = "col";
  at("pairs").tHead.replaceChildren(head);
  at("pairs").tBodies[0].replaceChildren(...page.states.map((state, i) => {
    const row = make("tr"), name = make("th", state.state, "name");
    name.scope = "row";
    row.append(name, ...cells[i].map((value, j) => pairCell(value, most, state.chosen === j)));
    return row;
  }));
  const some = page.actions.length < page.n_actions
    ? `${page.actions.length} of ${page.n_actions} actions, those visited most. ` : "";
  const counted = visits && visits.seq < visits.last
    ? ` Visits are counted up to event ${visits.seq.toLocaleString("en")} of ${visits.last.toLocaleString("en")}.` : "";
  const what = measure === "visits" ? "Reported steps of each pair." : "At most less at least of each pair at this stage.";
  at("pairs-note").textContent = `${some}${what} A frame marks the recommended action.${counted}`;
}
function pairCell(value, most, isChosen) {
  if (value === null) return make("td", "–", "forbidden");
  const cell = make("td", measure === "visits" ? value.toLocaleString("en") : figure(value));
  const share = Math.sqrt(Math.max(0, value) / most);  // so that small numbers can be told apart
  cell.style.setProperty("--share", String(Math.round(50 * share)));  // words stay readable on half of the colour
  if (isChosen) { cell.classList.add("chosen"); cell.title = "recommended"; }
  return cell;
}

document.addEventListener("DOMContentLoaded", () => {
  let typing = null;
  at("sign-in").querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(at("token").value.trim());
    at("token").value = "";
    listen();
  });
  at("sign-out").addEventListener("click", () => leave());
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ search: at("search").value }), 250);
  });
  at("stage").addEventListener("change", () => {
    const stage = Math.min(Math.max(1, Math.round(Number(at("stage").value)) || 1), plan?.horizon ?? 1);
    at("stage").value = String(stage);
    change({ stage: stage - 1 }, true);
  });
  at("back").addEventListener("click", () => change({ page: Math.max(0, view.page - 1) }, true));
  at("forth").addEventListener("click", () => change({ page: view.page + 1 }, true));
  for (const button of document.querySelectorAll("#policy th[data-sort] button")) {
    button.addEventListener("click", () => {
      const sort = button.parentElement.dataset.sort;
      change({ sort, descending: sort === view.sort ? !view.descending : sort !== "state" });
    });
  }
  for (const button of document.querySelectorAll(".measure")) {
    button.addEventListener("click", () => {
      measure = button.dataset.measure;
      for (const other of document.querySelectorAll(".measure")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      if (page) drawPairs();
    });
  }
  useThemes(() => drawCharts(true));
  setInterval(() => { if (now) drawEpisodes(); }, 5000);
  listen();
});
