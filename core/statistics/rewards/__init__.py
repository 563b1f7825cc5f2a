"""What environments paid → averages, progress, contests of models, the pattern of a reward, what is wrong with it."""
