"""What a site's machine is told before its SuperNode starts, by a server of this process."""

import ipaddress
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("flwr")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.federation.preflight import superlink_faults


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server):
    return f"127.0.0.1:{server.server_port}"


def certificate(folder, start, end):
    """A certificate of this machine that signs itself, and a context that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
        .add_extension(hosts, critical=False)
        .sign(key, hashes.SHA256())
    )
    public, secret = folder / "server.crt", folder / "server.key"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, secret)
    return public, context


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0.0, ""),
        (3.0, ""),
        (-200.0, ""),
        (3600.0, "clock is 0:59:59 ahead of the SuperLink's"),
        (-3600.0, "clock is 1:00:01 behind"),
    ],
)
def test_a_clock_that_flower_would_not_take_is_named(server, ahead, words):
    now = float(int(time.time()))
    Answer.date_time_string = lambda self: formatdate(now, usegmt=True)
    faults = superlink_faults(address(server), None, now=lambda: now + ahead)
    assert [words in fault for fault in faults] == [True] * bool(words)


def test_a_certificate_that_is_not_valid_by_a_wrong_clock_is_a_fault_of_the_clock(server, tmp_path):
    # The certificate is of tomorrow, and so is the server's time.
    public, context = certificate(tmp_path, timedelta(hours=20), timedelta(hours=48))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    tomorrow = time.time() + 24 * 3600
    Answer.date_time_string = lambda self: formatdate(tomorrow, usegmt=True)
    [fault] = superlink_faults(address(server), public)
    assert "behind the SuperLink's" in fault
    assert fault.endswith("By it the certificate is not valid yet")


def test_an_expired_certificate_is_named_where_the_clocks_agree(server, tmp_path):
    public, context = certificate(tmp_path, timedelta(days=-2), timedelta(days=-1))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Answer.date_time_string = BaseHTTPRequestHandler.date_time_string
    [fault] = superlink_faults(address(server), public)
    assert "certificate has expired" in fault
    assert "--root-certificates" in fault


def test_a_server_that_is_not_there_or_no_address_is_named(server):
    [fault] = superlink_faults("127.0.0.1:1", None)
    assert "cannot be reached" in fault
    assert "look whether the SuperLink runs there" in fault
    assert "expected HOST:PORT" in superlink_faults("hospital", None)[0]


def test_the_command_ends_with_1_where_the_clock_is_wrong(server, tmp_path, monkeypatch):
    Answer.date_time_string = lambda self: formatdate(time.time() - 3600, usegmt=True)
    command = ["app", "check", address(server), "--insecure"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "clock" in done.output
    Answer.date_time_string = BaseHTTPRequestHandler.date_time_string
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "reached" in done.output


def test_the_command_asks_for_certificates_or_to_be_told_that_there_are_none():
    done = CliRunner().invoke(app, ["app", "check", "127.0.0.1:1"])
    assert done.exit_code == 1
    assert "--root-certificates, or --insecure" in done.output
