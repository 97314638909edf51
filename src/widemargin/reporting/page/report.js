// Draw the figures in the colours of the page, and redraw them when the theme changes.
"use strict";
const pictures = JSON.parse(document.getElementById("pictures").textContent);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Replace names such as "@ink" by colours of the page.
function resolved(value) {
  if (typeof value === "string") return value.startsWith("@") ? colour(value.slice(1)) : value;
  if (Array.isArray(value)) return value.map(resolved);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolved(v)]));
  return value;
}

function themed(layout) {
  const axis = { gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  return {
    ...layout,
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: colour("ink") },
    hoverlabel: { font: { family: "system-ui, sans-serif" } },
  };
}

function drawAll() {
  for (const [name, { data, layout }] of Object.entries(pictures)) {
    const place = document.getElementById(`plot-${name}`);
    if (place) Plotly.react(place, resolved(data), themed(resolved(layout)), { displayModeBar: false, responsive: true });
  }
}

drawAll();
for (const look of ["(prefers-color-scheme: dark)", "print"]) {
  window.matchMedia(look).addEventListener("change", drawAll);
}
document.getElementById("copy").addEventListener("click", async (event) => {
  const code = document.getElementById("code");
  try { await navigator.clipboard.writeText(code.textContent); }
  catch { // the browser may deny this to a page opened from disk: select the text instead
    getSelection().selectAllChildren(code);
    event.target.textContent = "Selected";
    return;
  }
  event.target.textContent = "Copied";
});
