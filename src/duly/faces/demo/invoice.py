"""Sample invoices: a mail each, with a PDF that is written here, page, words and table of places.

Law: the words of the PDF stand in it as they are, so that a short script can read them as well.
"""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from typing import Final

DOMAIN: Final = "invoice.example"
OFFICE: Final = "office@demo.example"
SENDERS: Final = ("billing@shop.example", "accounts@hotel.example", "ledger@print.example")
FIRST_NUMBER: Final = 4700
CENTS_OF_ONE: Final = 1237  # the totals differ, and the same number has the same total
CENTS_MAX: Final = 100_000
SIZE: Final = "/MediaBox [0 0 595 842]"
FONT: Final = "<< /Font << /F1 5 0 R >> >>"


def write_invoice(place: int) -> bytes:
    """Write the mail that arrives at this place, from 1, with its invoice attached."""
    number = FIRST_NUMBER + place
    mail = EmailMessage(policy=SMTP)
    mail["From"] = SENDERS[place % len(SENDERS)]
    mail["To"] = OFFICE
    mail["Subject"] = f"Invoice {number}"
    mail["Message-ID"] = f"<{place}@{DOMAIN}>"
    mail.set_content("Please find our invoice attached.\n")
    pdf = write_pdf([f"Invoice {number}", f"Total {say_total(place)}", "Due in 30 days"])
    mail.add_attachment(
        pdf, maintype="application", subtype="pdf", filename=f"invoice-{number}.pdf"
    )
    return mail.as_bytes()


def say_total(place: int) -> str:
    """Say what the invoice at a place amounts to."""
    cents = place * CENTS_OF_ONE % CENTS_MAX
    return f"{cents // 100}.{cents % 100:02} EUR"


def write_pdf(lines: list[str]) -> bytes:
    """Write a PDF of one page with these lines; they are plain ASCII without brackets."""
    words = " ".join(f"({line}) Tj 0 -24 Td" for line in lines)
    drawn = f"BT /F1 18 Tf 72 720 Td {words} ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R {SIZE} /Contents 4 0 R /Resources {FONT} >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    text, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    return (text + head + end).encode("ascii")


def place_of(message_id: str) -> int | None:
    """Read the place of an invoice off its message id; of another mail there is none."""
    number, _, domain = message_id.strip().strip("<>").partition("@")
    return int(number) if domain == DOMAIN and number.isdecimal() else None
