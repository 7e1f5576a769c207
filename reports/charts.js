// Draws every chart of the page from the specification beside it. `ast` evaluates Vega's expressions
// without eval, which the page's security policy forbids.
(() => {
  const options = {
    renderer: "svg",
    ast: true,
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    downloadFileName: "chart",
    tooltip: { theme: "page" },
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
  const draw = async (place) => {
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    try {
      const { view } = await vegaEmbed(place, spec, { ...options, downloadFileName: place.id });
      if (spec.params?.some(({ name }) => name === "zoom")) listen(place, view);
      place.dataset.state = "drawn";
    } catch (error) {
      place.dataset.state = "failed";
      place.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(place.id, error);
    }
  };
  document.querySelectorAll("[data-spec]").forEach(draw);
})();
