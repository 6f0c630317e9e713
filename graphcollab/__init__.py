"""graphcollab: collaborative learning of personalised models and of the graph that says who listens to whom."""
