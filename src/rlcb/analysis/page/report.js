"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function axis(settings) {
    return { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true, ...settings };
  }

  function layout(settings) {
    return {
      ...settings,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 13 },
      margin: { l: 50, r: 12, t: 12, b: 40 },
      legend: { orientation: "h", y: -0.25 },
      hoverlabel: { bgcolor: colour("--paper"), bordercolor: colour("--ink"), font: { color: colour("--ink") } },
      xaxis: axis(settings.xaxis),
      yaxis: axis(settings.yaxis),
    };
  }

  function draw() {
    for (const [name, figure] of Object.entries(figures)) {
      const place = document.getElementById(name);
      if (place) {
        Plotly.react(place, figure.data, layout(figure.layout), { responsive: true, displayModeBar: false });
      }
    }
    document.body.dataset.drawn = "yes";
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
