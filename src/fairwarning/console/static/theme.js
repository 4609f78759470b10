// Before anything is painted: scripts run here, and this is the theme that was chosen on this machine.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
document.documentElement.classList.add("scripted");
