"""Secure rounds: the server is told sums over the clients, and no number of any one of them.

A sum takes five questions, each asked once; every client is a party of its own, and the messages
for the clients of a SuperNode go together. Who does not answer a question has dropped out.

=========  ==================================  ==========================================
step       to a client                         from it
=========  ==================================  ==========================================
advertise  what is to be summed                its public keys and the length of a feature,
                                               once its numbers are known to be in range
share      the transcript, and the keys of     encrypted shares of its seeds, one for
           its neighbours                      each neighbour
mask       the shares that are for it          its masked numbers
agree      whose masked numbers are there      its word for that list
unmask     the words of its neighbours         shares of seeds: of self-masks of those who
                                               are there, of keys of those who dropped
=========  ==================================  ==========================================

The transcript is the canonical JSON of all that the clients must agree on (the job, the classes,
the length of a feature, the bounds, the clients, the totals so far); every key is derived with it.

What a client must remember between questions is kept in the state of its SuperNode, which Flower
holds in memory and hands to each process that answers; see `once` for what that lacks. In the
simulation it is in the memory of the server's process.
"""
