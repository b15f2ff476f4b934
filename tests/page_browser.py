"""A headless browser and its tabs, by its DevTools protocol."""

import http.client
import json
import os
import pathlib
import shutil
import subprocess
import time

import websocket

WAIT_S = 60  # for what takes a second; a machine may be busy


def wait_until(ask, what):
    """The first true value that `ask` gives; fails after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        value = ask()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {WAIT_S} s in vain for: {what}")


def end(process):
    """Ends a process of ours, politely first."""
    process.terminate()
    try:
        process.wait(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def browser_program():
    names = [os.environ.get("DEEPINFER_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class Browser:
    def __init__(self, program, folder):
        self.folder = pathlib.Path(folder)
        self.log = open(self.folder / "browser.log", "wb")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-port=0", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run", "--no-proxy-server", "--window-size=1280,800",
             f"--user-data-dir={self.folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        try:
            self.port = wait_until(self._port, "the port of the browser")
        except AssertionError:
            self.close()
            raise

    def _port(self):
        assert self.process.poll() is None, (self.folder / "browser.log").read_text(errors="replace")[-2000:]
        try:
            lines = (self.folder / "profile" / "DevToolsActivePort").read_text().splitlines()
        except FileNotFoundError:
            return None
        return int(lines[0]) if len(lines) == 2 else None

    def ask(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def open(self, address):
        return Tab(self, json.loads(self.ask("PUT", f"/json/new?{address}")))

    def close(self):
        end(self.process)
        self.log.close()


class Tab:
    def __init__(self, browser, target):
        self.browser = browser
        self.target = target["id"]
        self.socket = websocket.create_connection(
            target["webSocketDebuggerUrl"], timeout=WAIT_S, suppress_origin=True, http_no_proxy=["127.0.0.1"])
        self.calls = 0
        self.wait("document.readyState === 'complete' && document.getElementById('send') !== null", "the page")

    def call(self, method, **parameters):
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.calls:
                assert "error" not in message, (method, message["error"])
                return message["result"]
        raise AssertionError(f"no answer to {method}")

    def value(self, expression):
        """What the expression is worth in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, expression, what):
        return wait_until(lambda: self.value(expression), what)

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def count(self, selector):
        return self.value(f"document.querySelectorAll({json.dumps(selector)}).length")

    def fill(self, selector, text):
        self.value(f"""(() => {{
            const field = document.querySelector({json.dumps(selector)});
            field.value = {json.dumps(text)};
            field.dispatchEvent(new Event("change", {{bubbles: true}}));
        }})()""")

    def click(self, selector):
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def attach(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def screenshot(self):
        """PNG, base64."""
        return self.call("Page.captureScreenshot", format="png")["data"]

    def close(self):
        self.socket.close()
        self.browser.ask("GET", f"/json/close/{self.target}")
