"""Drafting on this machine: what, how much, when. Knows trees and drafters, may not know streams or screens."""
