"""Text in a given form, without loss: which tokens a guide allows at each position.

What is allowed at a position depends on the guide and the output before it, and on nothing else.
Target and drafters mask alike, so a drafter guesses only what can be accepted.
"""
