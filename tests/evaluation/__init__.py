"""Tests of utils.evaluation."""
