// Sorts, filters and groups the table of runs. Without it the table is there, in the order of the page.
(() => {
  const table = document.getElementById("runs-table");
  if (!table) return;
  const [body] = table.tBodies;
  const heads = [...table.tHead.rows[0].cells].slice(0, -1); // not the links
  const rows = [...body.rows];
  const words = rows.map((row) => row.textContent.toLowerCase());
  const filter = document.getElementById("runs-filter");
  const group = document.getElementById("runs-group");
  const count = document.getElementById("runs-count");
  const text = (row, at) => (at ? row.cells[at].textContent : row.cells[0].firstElementChild?.textContent ?? "");
  const number = (row, at) => (row.cells[at].dataset.v === undefined ? null : Number(row.cells[at].dataset.v));
  const numeric = (at) => heads[at].classList.contains("number");
  let by = null;
  let down = false;
  // Unknown numbers are last, whichever the direction.
  const compare = (at, turned) => (a, b) => {
    const sign = turned ? -1 : 1;
    if (!numeric(at)) return sign * text(a, at).localeCompare(text(b, at), "en", { numeric: true });
    const [x, y] = [number(a, at), number(b, at)];
    return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
  };
  const title = (at, row) => {
    const line = document.createElement("tr");
    const cell = document.createElement("th");
    cell.colSpan = heads.length + 1;
    cell.textContent = `${heads[at].textContent}: ${text(row, at) || "not known"}`;
    line.className = "group";
    line.append(cell);
    return line;
  };
  const show = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row, place) => wanted.every((word) => words[place].includes(word)));
    const at = Number(group.value);
    if (by !== null) shown.sort(compare(by, down));
    if (at) shown.sort(compare(at, false)); // stable: within a group the order stays
    const lines = [];
    shown.forEach((row, place) => {
      if (at && (place === 0 || text(shown[place - 1], at) !== text(row, at))) lines.push(title(at, row));
      lines.push(row);
    });
    body.replaceChildren(...lines);
    count.textContent = shown.length === rows.length ? "" : `${shown.length} of ${rows.length}`;
  };
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      down = by === at ? !down : false;
      by = at;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      show();
    });
  });
  filter.addEventListener("input", show);
  group.addEventListener("change", show);
  const form = document.getElementById("runs-controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
})();
