// Runs before the page is painted: marks that scripts run, and applies the theme chosen in this browser.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
document.documentElement.classList.add("scripted");
