"""A certificate authority of a test's own, and certificates for servers and clients of this machine."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from towpath_fabric.clock import wall


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the test's own; it writes NAME.pem and NAME.key into *folder*."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    @classmethod
    def make(cls, folder: Path, name: str) -> "Authority":
        """Begin one; its certificate is in NAME.pem."""
        made = cls(folder, ec.generate_private_key(ec.SECP256R1()), _named(name))
        made._write(name, made.key, made._certificate(name, made.key, ca=True))
        return made

    def issue(self, name: str) -> None:
        """Make a certificate of *name* that is good for this machine, on either side."""
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(name, key, self._certificate(name, key, ca=False))

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(wall() - dt.timedelta(days=1))
            .not_valid_after(wall() + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        return (made if ca else made.add_extension(here, critical=False)).sign(self.key, hashes.SHA256())

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (self.folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
