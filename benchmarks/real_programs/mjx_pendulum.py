"""Bodies of MuJoCo's MJX: 64 cart poles with contacts, 8 steps, and a gradient by the start."""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

XML = """
<mujoco>
  <option timestep="0.01" iterations="2" ls_iterations="4" solver="Newton"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="cart" pos="0 0 1">
      <joint name="slide" type="slide" axis="1 0 0" damping=".1"/>
      <geom type="box" size=".2 .1 .1" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0" damping=".05"/>
        <geom type="capsule" fromto="0 0 0 0 0 .6" size=".05" mass=".2"
          contype="0" conaffinity="0"/>
      </body>
    </body>
    <body name="ball" pos="1 0 .2">
      <freejoint/>
      <geom type="sphere" size=".1" mass=".3"/>
    </body>
  </worldbody>
  <actuator><motor joint="slide" gear="10"/></actuator>
</mujoco>
"""
native = mujoco.MjModel.from_xml_string(XML)
model = mjx.put_model(native)


@jax.jit
def step(controls, starts):
    def roll(control, start):
        data = mjx.make_data(model)
        data = data.replace(qpos=data.qpos.at[1].set(start))

        def move(data, value):
            data = mjx.step(model, data.replace(ctrl=value[None]))
            return data, data.qpos

        _, places = jax.lax.scan(move, data, control)
        return places

    return jax.vmap(roll)(controls, starts)


def arguments():
    """Return forces of 8 steps and angles at the start."""
    controls = jax.random.normal(jax.random.key(0), (64, 8))
    return controls, jnp.linspace(-0.5, 0.5, 64)


def run(controls, starts):
    """Return places at the end."""
    places = step(controls, starts)
    return [float(x) for x in places[::16, -1, :3].ravel()]
