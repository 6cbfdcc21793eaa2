"""A server of files for tests that open pages over http."""

import http.server


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without writing a line for each request."""

    def log_message(self, *arguments):
        pass
