"""Importing of files and folders into the store, as one act."""

from core.flows.importing.files import import_files
from core.flows.importing.reading import ReadingProgress
from core.records.import_answer import BeliefDifference, ImportAnswer, NotOffered, RejectedLine, Unread
