"""Speak over HTTP: one thread owns the device and the models, and the web server brings it requests.

From below: who may ask (`access.py`, `guard.py`), the thread (`service.py`), answers (`api.py`), routes of two APIs.
"""
