// What charts share: the colours of the page, and text that stays text.

const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Plotly interprets some markup in names; escaping keeps them plain text.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function chartLayout({ xaxis, yaxis, ...more }) {
  const axis = { gridcolor: paint("--line"), zerolinecolor: paint("--line"), linecolor: paint("--line"),
    automargin: true, separatethousands: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "x unified",
    font: { color: paint("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
    hoverlabel: { bgcolor: paint("--ground"), bordercolor: paint("--line"), font: { color: paint("--ink") } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: paint("--soft"), activecolor: paint("--ink") },
    xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis }, ...more,
  };
}

// The buttons are explicit, because other buttons can upload data.
const CHART_CONFIG = {
  responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
};
