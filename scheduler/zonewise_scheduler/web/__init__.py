"""The page: HTML, CSS and JavaScript as files, which a browser uses as they are."""
