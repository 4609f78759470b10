"""ARM templates: parsed, evaluated within a budget, planned and deployed."""
