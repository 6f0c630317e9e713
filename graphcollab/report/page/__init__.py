"""A comparison or a benefit as a single HTML page that opens offline."""
