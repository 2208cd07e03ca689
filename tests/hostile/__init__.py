"""Malicious clients over real connections, for tests of the server and for the fuzzer's hostile mix."""
