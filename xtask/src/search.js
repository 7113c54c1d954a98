// What the search of the book finds: a line of JSON for each question, with the URLs of the results, best first.
// `node search.js BOOK QUESTION…` loads the index and the library of the built book, as a browser does.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [book, ...questions] = process.argv.slice(2);
const window = { search: {} };
window.window = window;
const context = vm.createContext(window);
for (const start of ["elasticlunr", "searchindex"]) {
  const name = fs.readdirSync(book).find((name) => name.startsWith(start) && name.endsWith(".js"));
  if (!name) throw new Error(`the book has no ${start}.js`);
  vm.runInContext(fs.readFileSync(path.join(book, name), "utf8"), context);
}
const { index, doc_urls: urls, search_options: options } = window.search;
const loaded = window.elasticlunr.Index.load(index);
for (const question of questions) {
  console.log(JSON.stringify(loaded.search(question, options).map((found) => urls[found.ref])));
}
