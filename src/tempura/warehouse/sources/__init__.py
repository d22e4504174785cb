"""Where rows come from: folders, tables of lakes, topics, pushes."""
