"""Your own finite MDP: when to repair a machine that wears out.

States 0 (new) to 4 (broken); action 0 lets it run, action 1 repairs it. Running earns less the more it is worn.
"""

import numpy as np

import matrixrl

n_states, horizon = 5, 20
transitions = np.zeros((n_states, 2, n_states))
reward = np.zeros((n_states, 2))
for s in range(n_states):
    transitions[s, 0, s] += 0.6
    transitions[s, 0, min(s + 1, n_states - 1)] += 0.4
    transitions[s, 1, 0] = 1.0
    reward[s] = 1.0 - s / (n_states - 1), 0.3

mdp = matrixrl.FiniteMDP(transitions, reward, horizon)
agent = matrixrl.MatrixRL(mdp, preset="tuned", seed=0)
history = agent.learn(n_episodes=300, progress=True)

best = matrixrl.solve(mdp)
print(f"optimal value {best.start_value:.3f}")
print(f"regret of 300 episodes {history.cumulative_regret[-1]:.2f}")
print("repair at the first stage in states", np.flatnonzero(agent.policy.table[0] == 1).tolist())
print("the optimum repairs in states      ", np.flatnonzero(best.policy[0] == 1).tolist())
