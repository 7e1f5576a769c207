// The SQL box: sends a query, shows its rows, and keeps the query in the address, which is the link to it.
"use strict";

const part = (id) => document.getElementById(id);
const NUMBER = /^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DOUBLE|FLOAT|DECIMAL)/;
let asked = 0; // the last query: the answer to an earlier one is dropped

function say(text, isError) {
  part("state").textContent = text;
  part("state").classList.toggle("error", Boolean(isError));
}

function cell(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show(answer) {
  const head = document.createElement("tr");
  for (const column of answer.columns) {
    const made = cell("th", column.name, NUMBER.test(column.type) ? "number" : "");
    made.append(cell("small", [column.type, column.unit].filter(Boolean).join(", ")));
    made.scope = "col";
    head.append(made);
  }
  part("rows").tHead.replaceChildren(head);
  const rows = answer.rows.map((row) => {
    const made = document.createElement("tr");
    row.forEach((value, at) => {
      const number = NUMBER.test(answer.columns[at].type) ? "number" : "";
      made.append(value === null ? cell("td", "NULL", "null " + number) : cell("td", value, number));
    });
    return made;
  });
  part("rows").tBodies[0].replaceChildren(...rows);
}

async function run(keep) {
  const sql = part("sql").value;
  const query = new URLSearchParams({ q: sql });
  const mine = ++asked;
  if (keep) history.pushState(null, "", "/sql?" + query);
  part("link").href = "/sql?" + query;
  for (const format of ["csv", "arrow"]) part(format).href = "/api/file?" + query + "&format=" + format;
  part("links").hidden = false;
  say("running …");
  const began = performance.now();
  let answer;
  try {
    const response = await fetch("/api/query", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ sql }),
    });
    answer = response.status === 401 ? { error: await response.text() } : await response.json();
  } catch (error) {
    answer = { error: "the server does not answer: " + error.message };
  }
  if (mine !== asked) return;
  if (answer.error) {
    show({ columns: [], rows: [] });
    say(answer.error, true);
    return;
  }
  show(answer);
  const count = answer.rows.length.toLocaleString("en") + (answer.rows.length === 1 ? " row" : " rows");
  const seconds = ((performance.now() - began) / 1000).toFixed(2) + " s";
  say((answer.complete ? count : "the first " + count + "; CSV and Arrow have more") + ", " + seconds);
}

function load() {
  const sql = new URLSearchParams(location.search).get("q");
  part("sql").value = sql ?? "from run_summary";
  if (sql !== null) run(false);
}

async function list() {
  const items = part("relations").querySelector("ul");
  if (!part("relations").open || items.childElementCount) return;
  const found = await (await fetch("/api/relations")).json();
  for (const [name, grain] of Object.entries({ ...found.tables, ...found.views })) {
    const button = cell("button", name);
    button.title = grain;
    button.addEventListener("click", async () => {
      const about = await fetch("/api/describe?" + new URLSearchParams({ name }));
      part("about").textContent = await about.text();
    });
    const item = document.createElement("li");
    item.append(button);
    items.append(item);
  }
}

part("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run(true);
});
part("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run(true);
  }
});
part("relations").addEventListener("toggle", list);
addEventListener("popstate", load);
load();
