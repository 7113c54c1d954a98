// mdBook's highlighter does not know Clojure, in whose notation psi is written: keywords, strings, numbers, comments.
"use strict";
(function () {
  if (typeof hljs === "undefined") return;
  hljs.registerLanguage("clojure", () => ({
    name: "Clojure",
    aliases: ["edn", "clj"],
    contains: [
      { className: "comment", begin: ";", end: "$" },
      { className: "string", begin: '"', end: '"', contains: [{ begin: /\\[\s\S]/ }] },
      { className: "symbol", begin: /:[\w.*+!?<>=\/-]+/ },
      { className: "number", begin: /(?<![\w-])-?\d+(\.\d+)?/ },
      { className: "literal", begin: /(?<![\w-])(true|false|nil)(?![\w-])/ },
    ],
  }));
  const highlight = hljs.highlightElement || hljs.highlightBlock;
  document.querySelectorAll("code.language-clojure").forEach((block) => {
    block.classList.remove("hljs");
    delete block.dataset.highlighted;
    highlight.call(hljs, block);
  });
})();
