"""Speak over HTTP: one thread owns the device and the models, and the web server brings it requests.

From below: requests and generations, the models, the thread (`service.py`), encoders, and the routes of two APIs.
"""
