"use strict";

// What pages share that are served and change while they are open.

// Set the chosen theme before the page is drawn.
const THEME = "matrixrl-theme";
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
function chosenTheme() {
  try { return localStorage.getItem(THEME); } catch { return null; }  // storage may be disabled
}
function isDark() {
  const chosen = chosenTheme();
  return chosen === "dark" || (chosen !== "light" && systemDark.matches);
}
document.documentElement.dataset.theme = isDark() ? "dark" : "light";

const at = (id) => document.getElementById(id);
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const short = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");
function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;  // as text, because names and reasons may contain markup
  if (name) element.className = name;
  return element;
}
function say(element, words) {
  if (element.textContent !== words) element.textContent = words;  // a change is read out, a repetition is not
}
function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const digits = size >= 1000 ? 0 : size >= 10 ? 1 : 3;
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}
function duration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

const LOST = "Connection lost, trying again …";
function drawNotice(words) {
  at("notice").hidden = !words;
  say(at("notice"), words || "");
}

// Follow the theme of the system and the button, and draw again what has colours of its own.
function useThemes(redraw) {
  const follow = () => {
    const dark = isDark();
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    at("theme").textContent = dark ? "Light" : "Dark";
    redraw();
  };
  at("theme").addEventListener("click", () => {
    try { localStorage.setItem(THEME, isDark() ? "light" : "dark"); } catch { /* the choice is lost with the page */ }
    follow();
  });
  systemDark.addEventListener("change", follow);
  follow();
}
