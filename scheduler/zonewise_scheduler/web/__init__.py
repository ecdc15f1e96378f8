"""The web page: HTML, CSS and JavaScript files, which a browser loads without a build step."""
