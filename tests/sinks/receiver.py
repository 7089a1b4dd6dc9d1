"""An HTTP receiver for tests: keeps what is posted, and answers as it is told to."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiving:
    """What came, as (path, headers, value); ``answers`` are statuses to give first, then 200."""

    def __init__(self):
        self.posts, self.answers, self.body, self.location = [], [], b"", None
        self.url = ""


@contextmanager
def receiving():
    state = Receiving()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.posts.append((self.path, dict(self.headers), value))
            status = state.answers.pop(0) if state.answers else 200
            if status == 0:  # the connection breaks
                self.close_connection = True
                return
            self.send_response(status)
            if state.location:
                self.send_header("Location", state.location)
            self.send_header("Content-Length", str(len(state.body)))
            self.end_headers()
            self.wfile.write(state.body)

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            """A connection that the other side gave up is no news."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
