"""The one door to the timeline: every instant is announced, completed and taken back here."""
