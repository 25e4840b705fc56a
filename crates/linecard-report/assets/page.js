// Draws the charts of points and steps. Ticks, units and colours are ours; the rest is uPlot's.
(() => {
  "use strict";
  const HEIGHT = 300;
  // Where nothing was counted, on a logarithmic axis.
  const FOOT = 0.5;
  const charts = JSON.parse(document.getElementById("figures").textContent);
  const plots = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ink = () => colour("--soft");
  const grid = () => colour("--faint");
  const series = (index) => () => colour("--s" + (index % 8));

  // The name of a unit for values of this size, and how many of the unit it is.
  const step = (steps, size) => {
    const zero = steps.find((s) => s[0] === 1) || steps[0];
    if (!(Math.abs(size) > 0)) return zero;
    return steps.filter((s) => Math.abs(size) >= s[0] * 0.9995).pop() || steps[0];
  };
  const join = (number, name) =>
    number.replace("-", "−") + (/^[kMGT]?$/.test(name) ? name : "\u00a0" + name);
  const zero = (name) => (/^[kMGT]$/.test(name) ? "0" : join("0", name));
  const exact = (axis, value) => {
    if (value === null || value === undefined) return "–";
    const [size, name] = step(axis.steps, value);
    if (axis.steps[0][1] === "" && Number.isInteger(value) && Math.abs(value) < 1e6) return value.toLocaleString("en");
    const scaled = value / size;
    return join(String(Number(scaled.toPrecision(scaled >= 1e5 ? 6 : 5))), name);
  };
  // As many as the distance of ticks has: 2.5 has one.
  const decimals = (apart) => {
    let digits = 0;
    while (digits < 9 && Math.abs(apart * 10 ** digits - Math.round(apart * 10 ** digits)) > 1e-6 * apart * 10 ** digits) digits++;
    return digits;
  };
  const ticks = (axis) => (plot, values, index, space, apart) => {
    const seen = values.filter((v) => v !== null);
    const largest = Math.max(...seen.map(Math.abs), 0);
    return values.map((value) => {
      if (value === null) return "";
      const [size, name] = step(axis.steps, axis.log ? value : largest);
      const text = axis.log
        ? String(Number((value / size).toPrecision(6)))
        : (value / size).toFixed(decimals(apart / size));
      return Number(text) === 0 ? zero(name) : join(text, name);
    });
  };

  // Powers of ten, with 2 and 5 between them where there is room; on a short axis steps as on a linear one.
  const logarithmic = (length, space, low, high) => {
    const decades = Math.log10(high / low);
    const found = [];
    if (decades < 1.3) {
      // The upper end is where ticks are closest.
      const rough = high * (10 ** ((decades * space * 0.8) / length) - 1);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
      for (let n = Math.ceil(low / step); n * step <= high && found.length < 50; n++) found.push(n * step);
      return found;
    }
    const room = length / decades;
    const every = Math.max(1, Math.ceil(space / room));
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += every) {
      for (const n of room >= 3.5 * space ? [1, 2, 5] : [1]) found.push(n * 10 ** power);
    }
    return found.filter((value) => value >= low * 0.9999 && value <= high * 1.0001);
  };
  const splits = (space) => (plot, index, low, high) =>
    logarithmic(index === 0 ? plot.width - 80 : plot.height - 60, space, low, high);

  // Without its middle where it is too long.
  const short = (text, most) =>
    text.length <= most ? text : text.slice(0, most / 2) + "…" + text.slice(-most / 2 + 1);

  const side = (axis, size) => ({
    ...(axis.log ? { splits: splits(size.space), filter: (plot, values) => values } : {}),
    label: short(axis.name, size.most),
    stroke: ink,
    font: "12px system-ui, sans-serif",
    labelFont: "13px system-ui, sans-serif",
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1, size: 5 },
    values: ticks(axis),
    ...size,
  });
  // As wide as the widest text of its ticks.
  const width = (plot, values, index, cycle) => {
    if (cycle > 1) return plot.axes[index]._size;
    plot.ctx.save();
    plot.ctx.font = plot.axes[index].font[0];
    const widest = Math.max(0, ...(values || []).map((text) => plot.ctx.measureText(text).width));
    plot.ctx.restore();
    return Math.ceil(widest / devicePixelRatio) + 16;
  };

  const line = (chart, one, index) => {
    const common = {
      label: one.name,
      stroke: series(index),
      spanGaps: true,
      value: (plot, value) => exact(chart.y, chart.kind === "steps" && value === FOOT ? 0 : value),
    };
    if (chart.kind === "steps") {
      return {
        ...common,
        width: 1.5,
        fill: () => series(index)() + "1c",
        paths: uPlot.paths.stepped({ align: 1 }),
        points: { show: false },
      };
    }
    if (one.dots) {
      return { ...common, paths: () => null, points: { show: true, size: 3, width: 0, fill: series(index) } };
    }
    return { ...common, width: 1.25, points: { show: one.y.length < 60, size: 4 } };
  };

  // Places are distances from the one before, in steps; of logarithms, where the axis is one.
  const places = (axis, { from, step, steps }) => {
    let at = 0;
    const place = (by) => from + (at += by) * step;
    return steps.map(axis.log ? (by) => Math.exp(place(by)) : place);
  };
  // A logarithmic axis has no zero: nothing is drawn half a count high, at the foot.
  const values = (chart, one) =>
    chart.kind === "steps" && chart.y.log ? one.y.map((n) => (n > 0 ? n : FOOT)) : one.y;
  const data = (chart) =>
    uPlot.join(chart.lines.map((one) => [places(chart.x, one.x), values(chart, one)]));

  const draw = (place) => {
    const chart = charts[Number(place.dataset.chart)];
    if (!chart || !chart.lines.some((one) => one.y.length > 0)) {
      place.textContent = "nothing was recorded";
      return;
    }
    const scale = (axis) => ({ time: false, distr: axis.log ? 3 : 1 });
    const [x, y] = [scale(chart.x), scale(chart.y)];
    // Not from one power of ten to another, as is usual: most of that would be empty.
    const close = (plot, low, high) => (high > low ? [low / 1.02, high * 1.02] : [low / 2, low * 2]);
    if (chart.x.log) x.range = close;
    if (chart.y.log) y.range = close;
    if (chart.kind === "steps") {
      y.range = (plot, low, high) => [FOOT, 10 ** Math.ceil(Math.log10(Math.max(high, 1) * 1.2))];
    }
    const plot = new uPlot(
      {
        width: place.clientWidth || 840,
        height: HEIGHT,
        // Half of the last tick's text stands beside the picture.
        padding: [null, 34, null, null],
        scales: { x, y },
        axes: [side(chart.x, { size: 34, labelSize: 22, space: 80, most: 50 }), side(chart.y, { size: width, labelSize: 24, space: 34, most: 30 })],
        series: [
          { label: chart.x.name, value: (plot, value) => exact(chart.x, value) },
          ...chart.lines.map((one, index) => line(chart, one, index)),
        ],
        legend: { markers: { width: 0, fill: (plot, index) => `var(--s${(index - 1) % 8})` } },
        cursor: { drag: { x: true, y: false } },
      },
      data(chart),
      place,
    );
    plots.push([plot, place]);
  };

  const fit = () => {
    for (const [plot, place] of plots) {
      if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: HEIGHT });
    }
  };
  const again = () => plots.forEach(([plot]) => plot.redraw(false, true));
  const printed = (is) => () => {
    document.documentElement.classList.toggle("light", is);
    again();
  };

  document.querySelectorAll("[data-chart]").forEach(draw);
  addEventListener("resize", fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("beforeprint", printed(true));
  addEventListener("afterprint", printed(false));
})();
