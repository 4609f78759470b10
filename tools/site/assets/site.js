// Tables that are wider than the page scroll inside a box that the theme adds. Let the keyboard reach the box.
function reachTables() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    box.tabIndex = 0;
    box.role = "region";
    box.ariaLabel = "Table";
  }
}

// The button of a session copies the commands, without prompts and output.
function copyCommands() {
  for (const button of document.querySelectorAll(".language-console .md-code__button:not([data-clipboard-text])")) {
    const code = button.closest(".language-console").querySelector("code").cloneNode(true);
    code.querySelectorAll(".gp, .go").forEach((part) => part.remove());
    const lines = code.textContent.split("\n").filter((line) => line.trim());
    button.setAttribute("data-clipboard-text", lines.join("\n"));
  }
}

function improve() {
  reachTables();
  copyCommands();
}
improve();
new MutationObserver(improve).observe(document.body, { childList: true, subtree: true });
