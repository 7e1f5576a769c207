// Draws every chart of the page from the specification beside it. `ast` evaluates Vega's expressions
// without eval, which the page's security policy forbids.
(() => {
  // A tooltip's amounts in the unit that suits each, as axes have them, and then all their digits.
  const scales = {
    ps: [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"]],
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    bytes: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]],
    "B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"]],
  };
  const suited = (key, text) => {
    const [, unit, more = ""] = /(?:^|, | )(ps|s|bytes|B\/s)( \(.*\))?$/.exec(key) ?? [];
    const number = Number(String(text).replaceAll(",", "").replace("\u2212", "-"));
    const scale = scales[unit]?.find(([factor]) => Math.abs(number) >= factor);
    if (!scale || scale[0] === 1) return [key, text];
    const name = (unit === "bytes" ? key : key.slice(0, key.length - more.length - unit.length)).replace(/, $/, "");
    return [(name || "amount") + (unit === "bytes" ? "" : more), `${Number((number / scale[0]).toPrecision(4))} ${scale[1]} (${text} ${unit})`];
  };
  const tooltip = (value, sanitize) => {
    if (typeof value !== "object" || value === null) return sanitize(String(value));
    const rows = Object.entries(value).map(([key, text]) => {
      const [name, shown] = suited(key, text);
      return `<tr><td class="key">${sanitize(name)}</td><td class="value">${sanitize(shown)}</td></tr>`;
    });
    return `<table><tbody>${rows.join("")}</tbody></table>`;
  };
  const options = {
    renderer: "svg",
    ast: true,
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    downloadFileName: "chart",
    tooltip: { theme: "page", formatTooltip: tooltip },
  };
  // Keys move and zoom a timeline. A key maps the first and last time shown to the new ones.
  const zoomed = (share) => (from, to) => [from + (share * (to - from)) / 2, to - (share * (to - from)) / 2];
  const moved = (share) => (from, to) => [from + share * (to - from), to + share * (to - from)];
  const keys = {
    "+": zoomed(0.2),
    "=": zoomed(0.2), // + without Shift
    "-": zoomed(-0.25),
    ArrowLeft: moved(-0.1),
    ArrowRight: moved(0.1),
    0: () => null, // all of it
  };
  const listen = (place, view) => {
    const [{ field }] = view.signal("zoom_tuple_fields");
    place.tabIndex = 0;
    place.setAttribute("aria-keyshortcuts", "+ - ArrowLeft ArrowRight 0");
    place.addEventListener("keydown", (event) => {
      const change = keys[event.key];
      if (!change || event.target !== place || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      view.signal(`zoom_${field}`, change(...view.scale("x").domain())).runAsync();
    });
  };
  // On a phone, long names leave a plot little room: a title that is wider than the plot ends with it, and
  // names beside the plot have a part of the chart. Else titles and legends would be cut off at the right.
  const NARROW = 480, BESIDE = 0.42;
  const narrowed = (place) => (vega) => {
    const axes = vega.axes?.map((axis) => {
      if (axis.scale === "x") return { ...axis, titleAnchor: "end" };
      return axis.scale === "y" ? { ...axis, labelLimit: BESIDE * place.clientWidth } : axis;
    });
    return { ...vega, axes };
  };
  const draw = async (place) => {
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    try {
      const { view } = await vegaEmbed(place, spec, {
        ...options,
        downloadFileName: place.id,
        ...(place.clientWidth < NARROW && { patch: narrowed(place) }),
      });
      if (spec.params?.some(({ name }) => name === "zoom")) listen(place, view);
      place.dataset.state = "drawn";
    } catch (error) {
      place.dataset.state = "failed";
      place.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(place.id, error);
    }
  };
  document.querySelectorAll("[data-spec]").forEach(draw);
  // The page's own name, where the menu is wider than the screen.
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
})();
