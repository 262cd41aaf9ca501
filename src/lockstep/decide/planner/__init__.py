"""Planning: the space of layouts, the exact search, estimates, rooflines, sensitivities, upgrades and exports."""
