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
  const draw = async (place) => {
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    try {
      await vegaEmbed(place, spec, { ...options, downloadFileName: place.id });
      place.dataset.state = "drawn";
    } catch (error) {
      place.dataset.state = "failed";
      place.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(place.id, error);
    }
  };
  document.querySelectorAll("[data-spec]").forEach(draw);
  // Paper shows the numbers: tables that are folded on the screen are open in print.
  const folded = () => document.querySelectorAll("details.rows:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...folded()];
    opened.forEach((part) => (part.open = true));
  });
  addEventListener("afterprint", () => opened.forEach((part) => (part.open = false)));
})();
