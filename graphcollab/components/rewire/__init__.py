"""The rewire slot: edges and participating nodes of the next round."""
