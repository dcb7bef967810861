// Finds headings by words. Without this file every page is complete; it only adds the field.
"use strict";
(function () {
  var base = document.currentScript.dataset.base;
  var field = document.getElementById("find");
  var found = document.getElementById("found");
  var MOST = 20;

  function rank(row, words) {
    var title = row[1].toLowerCase();
    var all = (row[0] + " " + row[1] + " " + row[3]).toLowerCase();
    if (!words.every(function (word) { return all.includes(word); })) return 0;
    return 1 + words.filter(function (word) { return title.includes(word); }).length;
  }

  function show() {
    var words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.hidden = words.length === 0;
    found.textContent = "";
    if (found.hidden) return;
    var rows = FIND.map(function (row) { return [rank(row, words), row]; })
      .filter(function (pair) { return pair[0]; })
      .sort(function (a, b) { return b[0] - a[0]; })
      .slice(0, MOST);
    if (!rows.length) found.textContent = "No heading has these words.";
    rows.forEach(function (pair) {
      var link = document.createElement("a");
      link.href = base + pair[1][2];
      link.textContent = pair[1][1];
      var below = document.createElement("span");
      below.textContent = pair[1][0] + (pair[1][3] ? ": " + pair[1][3] : "");
      link.append(below);
      found.append(link);
    });
  }

  field.form.hidden = false;
  field.addEventListener("input", show);
  field.form.addEventListener("submit", function (event) {
    event.preventDefault();
    var first = found.querySelector("a");
    if (first) first.click();
  });
  found.addEventListener("click", function () { field.value = ""; show(); });
  if (matchMedia("(max-width: 48rem)").matches) document.querySelector("nav details").open = false;
})();
