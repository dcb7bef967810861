"""What connectors cost: a call over bare httpx2, and 1,000 mails out of a mailbox of 100,000.

python -m bench.connectors             # both, some minutes
python -m bench.connectors --quick     # does it run at all?
"""
